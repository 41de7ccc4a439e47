/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_versions.c - which software this node has, without loading it.
 *
 * Python is asked once where it looks for packages; their versions stand in the names of their
 * metadata folders. To import torch takes seconds, and on a bad node it may never end.
 */
#include "preflight/preflight_inside.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/utsname.h>

#define PATHS_MOST    64u
#define PACKAGES_MOST 8192u
#define PACKAGES_TOLD 512u

/* What is named by itself; of all the rest there is one digest. */
static const char *const packages[] = {
	"torch",
	"triton",
	"pytorch_triton",
	"nvidia_nccl_*",
	"nvidia_cuda_runtime*",
	"nvidia_cudnn*",
	"nvidia_cublas*",
	"numpy",
	"transformers",
	"accelerate",
	"deepspeed",
	"lightning",
	"pytorch_lightning",
	"megatron_core",
	"transformer_engine*",
	"flash_attn*",
	"datasets",
	"torchtitan",
	"torchao",
	"apex",
	"xformers",
	"peft",
	"trl",
	"safetensors",
	"tokenizers",
	"nemo_toolkit",
	"ray",
	"colossalai",
	"jax",
	"jaxlib",
	"nvidia_dali*",
	"mosaicml*",
	"composer",
	"lockstep",
	"webdataset",
};

struct package {
	char *name, *version;
};
struct found {
	VEC(struct package) v;
};

static bool named_so(const char *pattern, const char *name)
{
	size_t len = strlen(pattern);

	return pattern[len - 1] == '*' ? !strncmp(pattern, name, len - 1) : !strcmp(pattern, name);
}

/* "Torch-2.13.0+cpu.dist-info": names are compared in lower case with "_" for "-" and ".". */
static void take_metadata(struct found *f, const char *entry)
{
	size_t len = strlen(entry);
	const char *end = NULL, *dash = strchr(entry, '-');
	struct package p;

	if (len > 10 && !strcmp(entry + len - 10, ".dist-info"))
		end = entry + len - 10;
	else if (len > 9 && !strcmp(entry + len - 9, ".egg-info"))
		end = entry + len - 9;
	if (!end || !dash || dash >= end || f->v.n >= PACKAGES_MOST)
		return;
	p.name = xasprintf("%.*s", (int)(dash - entry), entry);
	for (char *c = p.name; *c; c++)
		*c = *c == '.' ? '_' : (char)tolower((unsigned char)*c);
	for (size_t i = 0; i < f->v.n; i++)
		if (!strcmp(f->v.v[i].name, p.name)) { /* an earlier folder hides it */
			free(p.name);
			return;
		}
	p.version = xasprintf("%.*s", (int)MIN(end - dash - 1, 80), dash + 1);
	*vec_push(&f->v) = p;
}

/* CUDA's version is in torch/version.py: "cuda: Optional[str] = '12.8'". */
static void take_torch(const char *folder, json_t *items)
{
	static const struct {
		const char *begins, *key;
	} lines[] = { { "cuda", "torch's CUDA" },
		      { "hip", "torch's HIP" },
		      { "git_version", "torch's commit" } };
	_cleanup_free_ char *path = xasprintf("%s/torch/version.py", folder);
	size_t len;
	char *text, *save = NULL;

	if (json_object_get(items, "torch's commit"))
		return;
	text = file_whole(path, 65536, &len);
	for (char *l = text ? strtok_r(text, "\n", &save) : NULL; l;
	     l = strtok_r(NULL, "\n", &save))
		for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
			size_t n = strlen(lines[i].begins);
			char *value = strchr(l, '=');

			if (strncmp(l, lines[i].begins, n) || !value ||
			    isalnum((unsigned char)l[n]))
				continue;
			value += 1 + strspn(value + 1, " '\"");
			value[strcspn(value, "'\"")] = 0;
			json_object_set_new(items, lines[i].key, text_json(value));
		}
	free(text);
}

static void take_folder(struct found *f, const char *folder, json_t *items)
{
	DIR *dir = opendir(folder);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		take_metadata(f, e->d_name);
	if (dir) {
		closedir(dir);
		take_torch(folder, items);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct package *)a)->name, ((const struct package *)b)->name);
}

/* Those that matter most by themselves; the others too, or of very many a digest. */
static void put_packages(struct found *f, json_t *items, json_t *others)
{
	struct buf all = { 0 };
	bool many = f->v.n > PACKAGES_TOLD;
	char digest[17];

	if (f->v.n)
		qsort(f->v.v, f->v.n, sizeof(*f->v.v), by_name);
	for (size_t i = 0; i < f->v.n; i++) {
		const struct package *p = &f->v.v[i];
		bool known = false;

		for (size_t k = 0; k < ARRAY_SIZE(packages); k++)
			known |= named_so(packages[k], p->name);
		if (known || !many)
			json_object_set_new(known ? items : others, p->name, text_json(p->version));
		buf_put(&all, p->name, strlen(p->name) + 1);
		buf_put(&all, p->version, strlen(p->version) + 1);
		free(p->name);
		free(p->version);
	}
	short_digest(all.data, all.len, digest);
	if (many)
		json_object_set_new(others, "all packages",
				    json_sprintf("%zu, sha256 %s..", f->v.n, digest));
	buf_done(&all);
	free(f->v.v);
}

static void put_python(const char *python, json_t *items, json_t *others)
{
	static const char script[] = "import sys\nprint(sys.version.split()[0])\n"
				     "for p in sys.path:\n print(p or '.')\n";
	char *argv[] = { (char *)(uintptr_t)python, (char *)"-B", (char *)"-c",
			 (char *)(uintptr_t)script, NULL };
	struct error why = { "" };
	char *text = command_text(argv, 65536, &why), *save = NULL, *line;
	struct found f = { 0 };

	if (!text) {
		json_object_set_new(items, "python", text_json(why.text));
		return;
	}
	line = strtok_r(text, "\n", &save);
	json_object_set_new(items, "python", text_json(line ? line : "it said nothing"));
	for (unsigned i = 0; i < PATHS_MOST && (line = strtok_r(NULL, "\n", &save)); i++)
		take_folder(&f, line, items);
	put_packages(&f, items, others);
	free(text);
}

static void put_driver(json_t *items)
{
	char *text = system_text("/sys/module/nvidia/version", 256);
	char *amd = system_text("/sys/module/amdgpu/version", 256);
	char *ofed = system_text("/sys/module/mlx5_core/version", 256);

	if (text)
		json_object_set_new(items, "NVIDIA driver", text_json(text));
	if (amd)
		json_object_set_new(items, "AMD driver", text_json(amd));
	if (ofed)
		json_object_set_new(items, "mlx5 driver", text_json(ofed));
	free(text);
	free(amd);
	free(ofed);
}

int facts_of_versions(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object();
	json_t *items = facts_group(facts, "versions"), *platform = facts_group(facts, "platform");
	struct utsname u;

	(void)reterr;
	json_object_set_new(items, "lockstep preflight", json_string(LOCKSTEP_VERSION));
	if (uname(&u) == 0) {
		json_object_set_new(platform, "kernel", text_json(u.release));
		json_object_set_new(items, "machine", text_json(u.machine));
	}
	put_driver(items);
	if (p->python)
		put_python(p->python, items, facts_group(facts, "packages"));
	*ret = facts;
	return 0;
}
