/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _lockstep.c - liblockstep.so for Python, on the stable ABI of 3.10.
 *
 * The library is loaded, not linked: until load() found one, every call goes to the empty functions
 * that lockstep.h has for programs without it. Nothing here raises but for wrong arguments; a phase
 * holds its name's id only, what is open is known to the library, so one object serves any depth
 * and any thread.
 */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#define LOCKSTEP_NONE
#include "lockstep/lockstep.h"

#define LIBRARY	  "liblockstep.so"
#define NAMES_MAX 8192 /* names that are kept; as many as a ring holds */
#define GC_OLDEST 2

static struct {
	int (*start)(void);
	void (*stop)(void);
	int (*on)(void);
	void (*identity)(int, int, int);
	uint32_t (*name)(const char *);
	void (*step_begin)(int64_t);
	void (*step_end)(void);
	void (*phase_begin)(uint32_t, enum lockstep_phase_kind);
	void (*phase_end)(void);
	void (*counter)(uint32_t, double);
	void (*mark)(uint32_t);
	uint64_t (*collective_begin)(uint32_t, enum lockstep_op, int64_t, uint64_t);
	void (*collective_end)(uint64_t);
	void (*hook_failed)(const char *); /* older libraries have none: NULL */
	void (*profiler)(int);		   /* the same */
} lib = { lockstep_start,
	  lockstep_stop,
	  lockstep_on,
	  lockstep_identity,
	  lockstep_name,
	  lockstep_step_begin,
	  lockstep_step_end,
	  lockstep_phase_begin,
	  lockstep_phase_end,
	  lockstep_counter,
	  lockstep_mark,
	  lockstep_collective_begin,
	  lockstep_collective_end,
	  NULL,
	  NULL };

/* Of each function its name and its place above, in their order. */
static const char *const symbols[] = {
	"lockstep_start",	   "lockstep_stop",	   "lockstep_on",
	"lockstep_identity",	   "lockstep_name",	   "lockstep_step_begin",
	"lockstep_step_end",	   "lockstep_phase_begin", "lockstep_phase_end",
	"lockstep_counter",	   "lockstep_mark",	   "lockstep_collective_begin",
	"lockstep_collective_end",
};
#define N_SYMBOLS (sizeof(symbols) / sizeof(*symbols))

static bool loaded;
static uint32_t life = 1;  /* ids hold for one process: a fork ends it */
static __thread int depth; /* phases that this thread has begun here and not ended */

static void phase_begins(uint32_t id, enum lockstep_phase_kind kind)
{
	depth++;
	lib.phase_begin(id, kind);
}

static void phase_ends(void)
{
	depth--;
	lib.phase_end();
}

static int find_loaded(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!base || strncmp(base + 1, LIBRARY, sizeof(LIBRARY) - 1))
		return 0;
	strncpy(data, info->dlpi_name, 4095);
	return 1;
}

/* load(path) -> the path that is used; raises OSError. A copy that another door has loaded is
   taken in its place, since two would tell twice. */
static PyObject *load(PyObject *self, PyObject *arg)
{
	char path[4096] = "";
	void *all[N_SYMBOLS], *handle;
	PyObject *bytes;

	(void)self;
	if (!dl_iterate_phdr(find_loaded, path)) {
		if (!PyUnicode_FSConverter(arg, &bytes))
			return NULL;
		strncpy(path, PyBytes_AsString(bytes), sizeof(path) - 1);
		Py_DECREF(bytes);
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return PyErr_Format(PyExc_OSError, "%s", dlerror());
	for (size_t i = 0; i < N_SYMBOLS; i++) {
		all[i] = dlsym(handle, symbols[i]);
		if (!all[i])
			return PyErr_Format(PyExc_OSError, "%s: no %s", path, symbols[i]);
	}
	memcpy(&lib, all, sizeof(all));
	lib.hook_failed = (void (*)(const char *))dlsym(handle, "lockstep_hook_failed");
	lib.profiler = (void (*)(int))dlsym(handle, "lockstep_profiler");
	if (dlsym(handle, "lockstep_start_python"))
		lib.start = (int (*)(void))dlsym(handle, "lockstep_start_python");
	loaded = true;
	return PyUnicode_DecodeFSDefault(path);
}

static PyObject *start(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	return PyBool_FromLong(lib.start());
}

static PyObject *stop(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	lib.stop();
	Py_RETURN_NONE;
}

static PyObject *on(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	return PyBool_FromLong(lib.on());
}

/* In a child after a fork. */
static PyObject *forked(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	life++;
	Py_RETURN_NONE;
}

static PyObject *identity(PyObject *self, PyObject *args)
{
	int rank, local_rank, world_size;

	(void)self;
	if (!PyArg_ParseTuple(args, "iii", &rank, &local_rank, &world_size))
		return NULL;
	lib.identity(rank, local_rank, world_size);
	Py_RETURN_NONE;
}

/* What a str is called in a ring; surrogates, as of file names, become question marks. */
static uint32_t name_of(PyObject *text)
{
	const char *s = PyUnicode_AsUTF8AndSize(text, NULL);
	PyObject *bytes;
	uint32_t id;

	if (s)
		return lib.name(s);
	PyErr_Clear();
	bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
	if (!bytes) {
		PyErr_Clear();
		return 0;
	}
	id = lib.name(PyBytes_AsString(bytes));
	Py_DECREF(bytes);
	return id;
}

static PyObject *name(PyObject *self, PyObject *text)
{
	(void)self;
	if (!PyUnicode_Check(text))
		return PyErr_Format(PyExc_TypeError, "a name is a str");
	return PyLong_FromUnsignedLong(name_of(text));
}

static PyObject *step_begin(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	long long number = n > 0 ? PyLong_AsLongLong(args[0]) : -1;

	(void)self;
	if (number == -1 && PyErr_Occurred())
		return NULL;
	lib.step_begin(number < -1 ? -1 : number);
	Py_RETURN_NONE;
}

static PyObject *step_end(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	lib.step_end();
	Py_RETURN_NONE;
}

static PyObject *end(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	phase_ends();
	Py_RETURN_NONE;
}

static PyObject *open_phases(PyObject *self, PyObject *none)
{
	(void)self, (void)none;
	return PyLong_FromLong(depth);
}

static PyObject *collective_begin(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	uint32_t group;
	long op;
	long long sequence, bytes;

	(void)self;
	if (n != 4)
		return PyErr_Format(PyExc_TypeError, "group, op, sequence, bytes");
	group = (uint32_t)PyLong_AsUnsignedLong(args[0]);
	op = PyLong_AsLong(args[1]);
	sequence = PyLong_AsLongLong(args[2]);
	bytes = PyLong_AsLongLong(args[3]);
	if (PyErr_Occurred())
		return NULL;
	if (op < 0 || op > LOCKSTEP_OP_RECV)
		op = LOCKSTEP_OP_UNKNOWN;
	return PyLong_FromUnsignedLongLong(lib.collective_begin(
	    group, (enum lockstep_op)op, sequence, bytes < 0 ? 0 : (uint64_t)bytes));
}

static PyObject *collective_end(PyObject *self, PyObject *id)
{
	unsigned long long collective = PyLong_AsUnsignedLongLong(id);

	(void)self;
	if (PyErr_Occurred())
		return NULL;
	if (collective)
		lib.collective_end(collective);
	Py_RETURN_NONE;
}

static PyObject *hook_failed(PyObject *self, PyObject *text)
{
	const char *s = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

	(void)self;
	PyErr_Clear();
	if (lib.hook_failed)
		lib.hook_failed(s ? s : "?");
	else
		lib.mark(lib.name(s ? s : "?"));
	Py_RETURN_NONE;
}

/* A member of gc.callbacks, which print what is raised in them: nothing is. */
static PyObject *collected(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	static uint32_t id, id_life;
	static __thread bool open;
	PyObject *generation =
	    n == 2 && PyDict_Check(args[1]) ? PyDict_GetItemString(args[1], "generation") : NULL;
	bool oldest = generation && PyLong_AsLong(generation) >= GC_OLDEST;

	(void)self;
	PyErr_Clear();
	if (!oldest || !lib.on())
		Py_RETURN_NONE;
	if (open) {
		open = false;
		lib.phase_end();
	} else if (!PyUnicode_CompareWithASCIIString(args[0], "start")) {
		if (id_life != life) {
			id = lib.name("garbage collection");
			id_life = life;
		}
		open = true;
		lib.phase_begin(id, LOCKSTEP_PHASE_GC);
	}
	Py_RETURN_NONE;
}

/* A phase, or a counter: a name and its id, found when it is first wanted in this process. */
struct named {
	PyObject_HEAD PyObject *text;
	uint32_t id, id_life;
	enum lockstep_phase_kind kind;
};

static uint32_t id_of(struct named *p)
{
	if (p->id_life != life && lib.on()) {
		p->id = name_of(p->text);
		p->id_life = life;
	}
	return p->id;
}

static PyObject *phase_enter(PyObject *self, PyObject *none)
{
	struct named *p = (struct named *)self;

	(void)none;
	phase_begins(id_of(p), p->kind);
	Py_INCREF(self);
	return self;
}

static PyObject *phase_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	(void)self, (void)args, (void)n;
	phase_ends();
	Py_RETURN_NONE;
}

/* As a decorator: lockstep.decorated(phase, function), which is Python. */
static PyObject *phase_call(PyObject *self, PyObject *args, PyObject *keywords)
{
	PyObject *module, *wrap, *function, *wrapped = NULL;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O", &function))
		return NULL;
	module = PyImport_ImportModule("lockstep._decorate");
	wrap = module ? PyObject_GetAttrString(module, "decorate") : NULL;
	if (wrap)
		wrapped = PyObject_CallFunctionObjArgs(wrap, self, function, NULL);
	Py_XDECREF(wrap);
	Py_XDECREF(module);
	return wrapped;
}

static PyObject *phase_repr(PyObject *self)
{
	return PyUnicode_FromFormat("lockstep.phase(%R)", ((struct named *)self)->text);
}

static void named_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_XDECREF(((struct named *)self)->text);
	give_back(self);
	Py_DECREF(type);
}

static PyMethodDef phase_methods[] = {
	{ "__enter__", phase_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)(void (*)(void))phase_exit, METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot phase_slots[] = {
	{ Py_tp_methods, phase_methods },
	{ Py_tp_call, phase_call },
	{ Py_tp_repr, phase_repr },
	{ Py_tp_dealloc, named_dealloc },
	{ Py_tp_doc, "A part of a step: a context manager and a decorator." },
	{ 0, NULL },
};

static PyType_Spec phase_spec = { "lockstep.Phase", sizeof(struct named), 0,
				  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
				  phase_slots };

/* Of the module: phases by their name, a table a kind; ordinary names in the first. */
struct state {
	PyTypeObject *type;
	PyObject *by_name[LOCKSTEP_PHASE_GC + 1];
};

static struct state *state_of(PyObject *module)
{
	return PyModule_GetState(module);
}

static PyObject *make_named(struct state *s, PyObject *text, long kind)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(s->type, Py_tp_alloc);
	struct named *p;

	if (!PyUnicode_Check(text))
		return PyErr_Format(PyExc_TypeError, "a name is a str");
	if (kind < 0 || kind > LOCKSTEP_PHASE_GC)
		return PyErr_Format(PyExc_ValueError, "no such kind: %ld", kind);
	p = (struct named *)alloc(s->type, 0);
	if (!p)
		return NULL;
	Py_INCREF(text);
	p->text = text;
	p->kind = (enum lockstep_phase_kind)kind;
	if (PyDict_Size(s->by_name[kind]) < NAMES_MAX &&
	    PyDict_SetItem(s->by_name[kind], text, (PyObject *)p) < 0) {
		Py_DECREF(p);
		return NULL;
	}
	return (PyObject *)p;
}

/* The one of this name; a new reference. */
static PyObject *get_named(PyObject *module, PyObject *text, long kind)
{
	struct state *s = state_of(module);
	PyObject *p = NULL;

	if (kind >= 0 && kind <= LOCKSTEP_PHASE_GC)
		p = PyDict_GetItemWithError(s->by_name[kind], text);
	if (p) {
		Py_INCREF(p);
		return p;
	}
	return PyErr_Occurred() ? NULL : make_named(s, text, kind);
}

static PyObject *phase(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
	long kind = n > 1 ? PyLong_AsLong(args[1]) : LOCKSTEP_PHASE_USER;

	if (n < 1 || n > 2)
		return PyErr_Format(PyExc_TypeError, "phase(name, kind=0)");
	if (kind == -1 && PyErr_Occurred())
		return NULL;
	return get_named(module, args[0], kind);
}

/* begin(phase): what its __enter__ does, for hooks. */
static PyObject *begin(PyObject *module, PyObject *p)
{
	if (Py_TYPE(p) != state_of(module)->type)
		return PyErr_Format(PyExc_TypeError, "no phase");
	phase_begins(id_of((struct named *)p), ((struct named *)p)->kind);
	Py_RETURN_NONE;
}

static PyObject *counter(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
	PyObject *p;
	double value;

	if (n != 2)
		return PyErr_Format(PyExc_TypeError, "counter(name, value)");
	value = PyFloat_AsDouble(args[1]);
	if (value == -1 && PyErr_Occurred())
		return NULL;
	p = get_named(module, args[0], LOCKSTEP_PHASE_USER);
	if (!p)
		return NULL;
	lib.counter(id_of((struct named *)p), value);
	Py_DECREF(p);
	Py_RETURN_NONE;
}

static PyObject *mark(PyObject *module, PyObject *text)
{
	PyObject *p = get_named(module, text, LOCKSTEP_PHASE_USER);

	if (!p)
		return NULL;
	lib.mark(id_of((struct named *)p));
	Py_DECREF(p);
	Py_RETURN_NONE;
}

/* profiler(1): another tool takes CUPTI's seat; profiler(0): it is done. */
static PyObject *profiler(PyObject *self, PyObject *arg)
{
	long on = PyLong_AsLong(arg);

	(void)self;
	if (on == -1 && PyErr_Occurred())
		return NULL;
	if (lib.profiler)
		lib.profiler(on != 0);
	Py_RETURN_NONE;
}

#define FAST(f) ((PyCFunction)(void (*)(void))(f))
static PyMethodDef methods[] = {
	{ "load", load, METH_O, "load(path): uses this library, or the one loaded already" },
	{ "start", start, METH_NOARGS, NULL },
	{ "stop", stop, METH_NOARGS, NULL },
	{ "on", on, METH_NOARGS, NULL },
	{ "forked", forked, METH_NOARGS, NULL },
	{ "identity", identity, METH_VARARGS, "identity(rank, local_rank, world_size)" },
	{ "name", name, METH_O, "name(text): its id" },
	{ "step_begin", FAST(step_begin), METH_FASTCALL, NULL },
	{ "step_end", step_end, METH_NOARGS, NULL },
	{ "phase", FAST(phase), METH_FASTCALL,
	  "phase(name, kind=0)\n\nA part of the step: `with phase(\"load\"):`, or "
	  "`@phase(\"load\")` before a "
	  "function." },
	{ "begin", begin, METH_O, NULL },
	{ "end", end, METH_NOARGS, NULL },
	{ "depth", open_phases, METH_NOARGS, "phases that this thread has open" },
	{ "counter", FAST(counter), METH_FASTCALL,
	  "counter(name, value)\n\nA value at this moment, in units that its name tells." },
	{ "mark", mark, METH_O, "mark(name)\n\nSomething happened at this moment." },
	{ "collective_begin", FAST(collective_begin), METH_FASTCALL, NULL },
	{ "collective_end", collective_end, METH_O, NULL },
	{ "hook_failed", hook_failed, METH_O, NULL },
	{ "profiler", profiler, METH_O, NULL },
	{ "collected", FAST(collected), METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

static int fill(PyObject *module)
{
	struct state *s = state_of(module);

	s->type = (PyTypeObject *)PyType_FromSpec(&phase_spec);
	if (!s->type)
		return -1;
	for (size_t i = 0; i < sizeof(s->by_name) / sizeof(*s->by_name); i++) {
		s->by_name[i] = PyDict_New();
		if (!s->by_name[i])
			return -1;
	}
	return PyModule_AddObjectRef(module, "Phase", (PyObject *)s->type);
}

static void empty(void *module)
{
	struct state *s = state_of(module);

	if (!s)
		return;
	Py_CLEAR(s->type);
	for (size_t i = 0; i < sizeof(s->by_name) / sizeof(*s->by_name); i++)
		Py_CLEAR(s->by_name[i]);
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, (void *)fill },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "lockstep._lockstep",
	.m_size = sizeof(struct state),
	.m_methods = methods,
	.m_slots = slots,
	.m_free = empty,
};

PyMODINIT_FUNC PyInit__lockstep(void);
PyMODINIT_FUNC PyInit__lockstep(void)
{
	return PyModuleDef_Init(&definition);
}
