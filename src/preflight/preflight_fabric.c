/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_fabric.c - a node's interfaces and RDMA ports as /sys shows them, and what
 * contradicts what in NCCL's variables.
 */
#include "preflight/preflight_fabric.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/timex.h>
#include <unistd.h>

#define NAMES_MOST 256u

static size_t system_names(const char *path, char *names[NAMES_MOST])
{
	_cleanup_free_ char *full = xasprintf("%s%s", preflight_root(), path);

	return names_in(full, names, NAMES_MOST);
}

static bool is_there(const char *path)
{
	_cleanup_free_ char *full = xasprintf("%s%s", preflight_root(), path);

	return access(full, F_OK) == 0;
}

static char *text_below(const char *folder, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);

	return system_text(path, 256);
}

/* A card's, a bond's, or a team's: not a bridge or one end of a container's cable. */
static bool is_hardware(const char *folder)
{
	static const char *const marks[] = { "device", "bonding", "team" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, marks[i]);

		if (is_there(path))
			return true;
	}
	return false;
}

static void put_interface(const char *name, json_t *facts)
{
	_cleanup_free_ char *folder = xasprintf("/sys/class/net/%s", name);
	_cleanup_free_ char *state = text_below(folder, "operstate");
	_cleanup_free_ char *mtu = text_below(folder, "mtu");
	_cleanup_free_ char *speed = text_below(folder, "speed");
	bool up = state && (!strcmp(state, "up") || !strcmp(state, "unknown"));
	json_t *j = json_object();

	json_object_set_new(j, "name", text_json(name));
	json_object_set_new(j, "state", text_json(state ? state : "?"));
	json_object_set_new(j, "hardware", json_boolean(is_hardware(folder)));
	if (mtu)
		json_object_set_new(j, "mtu", json_integer(strtol(mtu, NULL, 10)));
	if (speed && strtol(speed, NULL, 10) > 0)
		json_object_set_new(j, "mbit_s", json_integer(strtol(speed, NULL, 10)));
	json_array_append_new(json_object_get(facts, "interfaces"), j);
	if (!up || !is_hardware(folder))
		return;
	if (mtu)
		json_object_set_new(facts_group(facts, "mtu"), name, text_json(mtu));
	if (speed && strtol(speed, NULL, 10) > 0)
		json_object_set_new(facts_group(facts, "speed"), name,
				    json_sprintf("%.20s Mbit/s", speed));
}

/* "4: ACTIVE" without the number. */
static const char *behind_colon(const char *text)
{
	const char *colon = text ? strstr(text, ": ") : NULL;

	return colon ? colon + 2 : text ? text : "?";
}

static void put_port(const char *device, const char *port, json_t *facts)
{
	_cleanup_free_ char *folder = xasprintf("/sys/class/infiniband/%s/ports/%s", device, port);
	_cleanup_free_ char *state = text_below(folder, "state");
	_cleanup_free_ char *physical = text_below(folder, "phys_state");
	_cleanup_free_ char *rate = text_below(folder, "rate");
	_cleanup_free_ char *layer = text_below(folder, "link_layer");
	_cleanup_free_ char *name = xasprintf("%s/%s", device, port);
	json_t *j = json_object();

	json_object_set_new(j, "port", text_json(name));
	json_object_set_new(j, "state", text_json(behind_colon(state)));
	json_object_set_new(j, "physical", text_json(behind_colon(physical)));
	json_object_set_new(j, "rate", text_json(rate ? rate : "?"));
	json_object_set_new(j, "layer", text_json(layer ? layer : "?"));
	json_array_append_new(json_object_get(facts, "rdma"), j);
	json_object_set_new(facts_group(facts, "rdma"), name,
			    json_sprintf("%.40s, %.60s", behind_colon(state), rate ? rate : "?"));
}

static void put_links(json_t *facts)
{
	char *names[NAMES_MOST], *ports[NAMES_MOST];
	size_t n = system_names("/sys/class/net", names);

	for (size_t i = 0; i < n; i++) {
		put_interface(names[i], facts);
		free(names[i]);
	}
	n = system_names("/sys/class/infiniband", names);
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *at = xasprintf("/sys/class/infiniband/%s/ports", names[i]);
		size_t n_ports = system_names(at, ports);

		for (size_t k = 0; k < n_ports; k++) {
			put_port(names[i], ports[k], facts);
			free(ports[k]);
		}
		free(names[i]);
	}
}

int facts_of_fabric(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object();
	struct timex t = { 0 };
	int clock = adjtimex(&t); /* modes 0: asks only */

	(void)p;
	(void)reterr;
	json_object_set_new(facts, "interfaces", json_array());
	json_object_set_new(facts, "rdma", json_array());
	facts_group(facts, "mtu");
	facts_group(facts, "speed");
	facts_group(facts, "rdma");
	put_links(facts);
	json_object_set_new(facts, "contradictions", contradictions(facts));
	if (clock >= 0)
		json_object_set_new(facts, "clock_synchronized",
				    json_boolean(!(t.status & STA_UNSYNC)));
	*ret = facts;
	return 0;
}

/* By itself: a name server that does not answer must not hide the links. */
int facts_of_rendezvous(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *place = rendezvous_facts(p->rendezvous, p->probe_ms);

	(void)reterr;
	*ret = place ? place : json_object();
	return 0;
}
