/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_metric.c - the table of names, and what of a value can be believed.
 *
 * The bounds below are wide: they keep out sentinels and damage, not unusual boards.
 */
#include "read/gpu_metric.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#define GPU_NAME_MAX  96u
#define GPU_TEXT_MAX  128u
#define GPU_INDEX_MAX 4096 /* GPUs of one host, MIG instances among them */
/* What DCGM writes for "no value", as integers of 32 and 64 bits and as a double: a small number of
   reasons is counted up from the first of each. */
#define DCGM_BLANK_32	 2147483632.0
#define DCGM_BLANK_64	 9223372036854775792.0
#define DCGM_BLANK_FP	 140737488355328.0
#define DCGM_BLANK_KINDS 15.0
/* A board that draws this much computes, whatever the profiling counters say. */
#define WORKING_SHARE 0.4
#define WORKING_W     250.0

static const struct gpu_metric_name names[] = {
	/* nvidia-smi's queries and headers, rocm-smi's, and what scripts make of them */
	{ "powerdraw", GPU_POWER, UNIT_W, 2 },
	{ "powerdrawinstant", GPU_POWER, UNIT_W, 3 },
	{ "powerdrawaverage", GPU_POWER, UNIT_W, 1 },
	{ "instantaneouspowerdraw", GPU_POWER, UNIT_W, 3 },
	{ "averagepowerdraw", GPU_POWER, UNIT_W, 1 },
	{ "averagegraphicspackagepower", GPU_POWER, UNIT_W, 2 },
	{ "currentsocketgraphicspackagepower", GPU_POWER, UNIT_W, 3 },
	{ "currentsocketpower", GPU_POWER, UNIT_W, 3 },
	{ "averagesocketpower", GPU_POWER, UNIT_W, 2 },
	{ "socketpower", GPU_POWER, UNIT_W, 2 },
	{ "avgpwr", GPU_POWER, UNIT_W, 2 },
	{ "pwr", GPU_POWER, UNIT_W, 2 },
	{ "power", GPU_POWER, UNIT_W, 2 },
	{ "powerw", GPU_POWER, UNIT_W, 2 },
	{ "powermw", GPU_POWER, UNIT_MILLIWATT, 2 },
	{ "powerwatts", GPU_POWER, UNIT_W, 2 },
	{ "powerwatt", GPU_POWER, UNIT_W, 2 },
	{ "powerusage", GPU_POWER, UNIT_W, 2 },
	{ "powerusagewatts", GPU_POWER, UNIT_W, 2 },
	{ "powerused", GPU_POWER, UNIT_W, 2 },
	{ "gpupower", GPU_POWER, UNIT_W, 2 },
	{ "gpupowerw", GPU_POWER, UNIT_W, 2 },
	{ "gpupowerwatts", GPU_POWER, UNIT_W, 2 },
	{ "gpupowerdraw", GPU_POWER, UNIT_W, 2 },
	{ "gpupowerdraww", GPU_POWER, UNIT_W, 2 },
	{ "gpupowerusage", GPU_POWER, UNIT_W, 2 },
	{ "powerdraww", GPU_POWER, UNIT_W, 2 },
	{ "powerdrawwatts", GPU_POWER, UNIT_W, 2 },
	{ "watts", GPU_POWER, UNIT_W, 1 },
	{ "powerlimit", GPU_LIMIT, UNIT_W, 2 },
	{ "powerlimitw", GPU_LIMIT, UNIT_W, 2 },
	{ "powerlimitwatts", GPU_LIMIT, UNIT_W, 2 },
	{ "gpupowerlimit", GPU_LIMIT, UNIT_W, 2 },
	{ "currentpowerlimit", GPU_LIMIT, UNIT_W, 2 },
	{ "enforcedpowerlimit", GPU_LIMIT, UNIT_W, 3 },
	{ "enforcedpowerlimitwatts", GPU_LIMIT, UNIT_W, 3 },
	{ "powerenforcedlimitwatts", GPU_LIMIT, UNIT_W, 3 },
	{ "defaultpowerlimit", GPU_LIMIT, UNIT_W, 1 },
	{ "powerdefaultlimit", GPU_LIMIT, UNIT_W, 1 },
	{ "powermaxlimit", GPU_LIMIT, UNIT_W, 0 },
	{ "maxpowerlimit", GPU_LIMIT, UNIT_W, 0 },
	{ "pwrcap", GPU_LIMIT, UNIT_W, 2 },
	{ "powercap", GPU_LIMIT, UNIT_W, 2 },
	{ "currentpowercap", GPU_LIMIT, UNIT_W, 2 },
	{ "maxgraphicspackagepower", GPU_LIMIT, UNIT_W, 1 },
	{ "limit", GPU_LIMIT, UNIT_W, 0 },
	{ "limitw", GPU_LIMIT, UNIT_W, 0 },
	{ "tdp", GPU_LIMIT, UNIT_W, 0 },
	{ "utilizationgpu", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuutilization", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuutilizationpercent", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "utilizationgpupercent", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuutil", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuutilpercent", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuutilpct", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuusage", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuuse", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuload", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpubusy", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpubusypercent", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gfxactivity", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "gpuactivity", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "averagegfxactivity", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "utilization", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "utilizationpercent", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "utilizationratio", GPU_UTILIZATION, UNIT_RATIO, 1 },
	{ "util", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "utilpct", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "utilpercent", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "dutycycle", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "sm", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "utilizationmemory", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "memoryutilization", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "memutil", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "memcopyutil", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "gpumemoryreadwriteactivity", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "umcactivity", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "mem", GPU_MEMORY_UTIL, UNIT_PERCENT, 1 },
	{ "memoryused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memoryusedmib", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memoryusedmb", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memusedmb", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memusedmib", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "gpumemused", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "gpumemoryused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "usedmemory", GPU_MEMORY_USED, UNIT_MIB, 1 },
	{ "vramtotalusedmemory", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "vramused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "memoryallocatedbytes", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "memoryusedbytes", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "fb", GPU_MEMORY_USED, UNIT_MIB, 1 },
	{ "fbused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "clockssm", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "clockscurrentsm", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "clockssmmhz", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "clocksgr", GPU_SM_CLOCK, UNIT_MHZ, 1 },
	{ "clocksgraphics", GPU_SM_CLOCK, UNIT_MHZ, 1 },
	{ "clockscurrentgraphics", GPU_SM_CLOCK, UNIT_MHZ, 1 },
	{ "smclock", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "smclockmhz", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "gpuclock", GPU_SM_CLOCK, UNIT_MHZ, 1 },
	{ "sclk", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "pclk", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "sclkclockspeed", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "temperaturegpu", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "gputemperature", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "gpucurrenttemp", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "gputemp", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "gtemp", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "temp", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "tempc", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "temperature", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "temperaturec", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "temperaturecelsius", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "temperaturesensoredge", GPU_TEMPERATURE, UNIT_CELSIUS, 1 },
	{ "temperaturesensorjunction", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "tensoractive", GPU_TENSOR_ACTIVE, UNIT_RATIO, 2 },
	{ "tenso", GPU_TENSOR_ACTIVE, UNIT_RATIO, 2 },
	{ "smactive", GPU_SM_ACTIVE, UNIT_RATIO, 2 },
	{ "smact", GPU_SM_ACTIVE, UNIT_RATIO, 2 },
	{ "smacti", GPU_SM_ACTIVE, UNIT_RATIO, 2 },
	/* DCGM, and its columns in dcgmi dmon */
	{ "dcgmfidevpowerusage", GPU_POWER, UNIT_W, 2 },
	{ "dcgmfidevpowerusageinstant", GPU_POWER, UNIT_W, 3 },
	{ "dcgmpowerusage", GPU_POWER, UNIT_W, 2 },
	{ "dcgmfidevpowermgmtlimit", GPU_LIMIT, UNIT_W, 2 },
	{ "dcgmfidevenforcedpowerlimit", GPU_LIMIT, UNIT_W, 3 },
	{ "dcgmfidevpowermgmtlimitdef", GPU_LIMIT, UNIT_W, 1 },
	{ "dcgmfidevgpuutil", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "dcgmgpuutilization", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gputl", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "dcgmfidevmemcopyutil", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "mcutl", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "dcgmfidevfbused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "fbusd", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "dcgmfbused", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "dcgmfidevsmclock", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "dcgmsmclock", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "smclk", GPU_SM_CLOCK, UNIT_MHZ, 2 },
	{ "dcgmfidevgputemp", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "dcgmgputemp", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "tmptr", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "dcgmfiprofpipetensoractive", GPU_TENSOR_ACTIVE, UNIT_RATIO, 2 },
	{ "dcgmfiprofsmactive", GPU_SM_ACTIVE, UNIT_RATIO, 2 },
	{ "dcgmfidevxiderrors", GPU_XID, UNIT_NONE, 2 },
	{ "dcgmxiderrors", GPU_XID, UNIT_NONE, 2 },
	{ "dcgmfidevclockthrottlereasons", GPU_THROTTLE, UNIT_NONE, 2 },
	{ "dcgmfidevclockseventreasons", GPU_THROTTLE, UNIT_NONE, 2 },
	/* other exporters of Prometheus text */
	{ "nvidiasmipowerdrawwatts", GPU_POWER, UNIT_W, 2 },
	{ "nvidiasmipowerdrawinstantwatts", GPU_POWER, UNIT_W, 3 },
	{ "nvidiasmipowerlimitwatts", GPU_LIMIT, UNIT_W, 2 },
	{ "nvidiasmienforcedpowerlimitwatts", GPU_LIMIT, UNIT_W, 3 },
	{ "nvidiasmiutilizationgpuratio", GPU_UTILIZATION, UNIT_RATIO, 2 },
	{ "nvidiasmiutilizationmemoryratio", GPU_MEMORY_UTIL, UNIT_RATIO, 2 },
	{ "nvidiasmimemoryusedbytes", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "nvidiasmitemperaturegpu", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "nvidiagpupowerusagemilliwatts", GPU_POWER, UNIT_MILLIWATT, 2 },
	{ "nvidiagpudutycycle", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "nvidiagpumemoryusedbytes", GPU_MEMORY_USED, UNIT_BYTES, 2 },
	{ "nvidiagputemperaturecelsius", GPU_TEMPERATURE, UNIT_CELSIUS, 2 },
	{ "containeracceleratordutycycle", GPU_UTILIZATION, UNIT_PERCENT, 1 },
	{ "gpupackagepower", GPU_POWER, UNIT_W, 2 },
	{ "gpuaveragepackagepower", GPU_POWER, UNIT_W, 1 },
	{ "gpugfxactivity", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	{ "gpuumcactivity", GPU_MEMORY_UTIL, UNIT_PERCENT, 2 },
	{ "gpuusedvram", GPU_MEMORY_USED, UNIT_MIB, 2 },
	{ "amdgpupower", GPU_POWER, UNIT_W, 2 },
	{ "amdgpuusepercent", GPU_UTILIZATION, UNIT_PERCENT, 2 },
	/* whose GPU it is */
	{ "index", GPU_INDEX, UNIT_NONE, 2 },
	{ "gpu", GPU_INDEX, UNIT_NONE, 2 },
	{ "gpuindex", GPU_INDEX, UNIT_NONE, 2 },
	{ "gpuid", GPU_INDEX, UNIT_NONE, 2 },
	{ "gpuidx", GPU_INDEX, UNIT_NONE, 2 },
	{ "localrank", GPU_INDEX, UNIT_NONE, 0 },
	{ "deviceid", GPU_INDEX, UNIT_NONE, 1 },
	{ "deviceindex", GPU_INDEX, UNIT_NONE, 2 },
	{ "minornumber", GPU_INDEX, UNIT_NONE, 1 },
	{ "device", GPU_INDEX, UNIT_NONE, 1 },
	{ "uuid", GPU_UUID, UNIT_NONE, 2 },
	{ "gpuuuid", GPU_UUID, UNIT_NONE, 2 },
	{ "uniqueid", GPU_UUID, UNIT_NONE, 1 },
	{ "pcibusid", GPU_BUS_ID, UNIT_NONE, 2 },
	{ "gpubusid", GPU_BUS_ID, UNIT_NONE, 2 },
	{ "pcibus", GPU_BUS_ID, UNIT_NONE, 1 },
	{ "name", GPU_MODEL, UNIT_NONE, 1 },
	{ "gpuname", GPU_MODEL, UNIT_NONE, 2 },
	{ "productname", GPU_MODEL, UNIT_NONE, 2 },
	{ "modelname", GPU_MODEL, UNIT_NONE, 2 },
	{ "cardseries", GPU_MODEL, UNIT_NONE, 2 },
	{ "host", GPU_HOST, UNIT_NONE, 2 },
	{ "hostname", GPU_HOST, UNIT_NONE, 2 },
	{ "node", GPU_HOST, UNIT_NONE, 2 },
	{ "nodename", GPU_HOST, UNIT_NONE, 2 },
	{ "rank", GPU_RANK, UNIT_NONE, 1 },
	{ "globalrank", GPU_RANK, UNIT_NONE, 2 },
	{ "querytime", GPU_TIME, UNIT_NONE, 2 },
	{ "timestamp", GPU_TIME, UNIT_NONE, 2 },
	{ "datetime", GPU_TIME, UNIT_NONE, 2 },
	{ "epoch", GPU_TIME, UNIT_NONE, 1 },
	{ "ts", GPU_TIME, UNIT_NONE, 1 },
	{ "time", GPU_TIME, UNIT_NONE, 1 },
	{ "timens", GPU_TIME, UNIT_NONE, 2 },
	{ "timems", GPU_TIME, UNIT_NONE, 2 },
	{ "times", GPU_TIME, UNIT_NONE, 1 },
	{ "date", GPU_DATE, UNIT_NONE, 1 },
	/* what is wrong with it */
	{ "xid", GPU_XID, UNIT_NONE, 1 },
	{ "clockseventreasonsactive", GPU_THROTTLE, UNIT_NONE, 2 },
	{ "clocksthrottlereasonsactive", GPU_THROTTLE, UNIT_NONE, 2 },
	{ "throttlereasons", GPU_THROTTLE, UNIT_NONE, 1 },
	{ "clocksthrottlereasonshwslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clocksthrottlereasonshwthermalslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clocksthrottlereasonshwpowerbrakeslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clocksthrottlereasonsswthermalslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clocksthrottlereasonsswpowercap", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clockseventreasonshwslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clockseventreasonshwthermalslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clockseventreasonshwpowerbrakeslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clockseventreasonsswthermalslowdown", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
	{ "clockseventreasonsswpowercap", GPU_THROTTLE_REASON, UNIT_NONE, 2 },
};

/* --- names and units --- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

enum gpu_unit gpu_unit_of(const char *p, size_t len)
{
	static const struct {
		const char *word;
		enum gpu_unit unit;
	} units[] = {
		{ "W", UNIT_W },
		{ "watt", UNIT_W },
		{ "watts", UNIT_W },
		{ "mW", UNIT_MILLIWATT },
		{ "%", UNIT_PERCENT },
		{ "percent", UNIT_PERCENT },
		{ "MiB", UNIT_MIB },
		{ "MB", UNIT_MIB },
		{ "B", UNIT_BYTES },
		{ "bytes", UNIT_BYTES },
		{ "MHz", UNIT_MHZ },
		{ "C", UNIT_CELSIUS },
		{ "\xc2\xb0"
		  "C",
		  UNIT_CELSIUS },
	};

	while (len && (unsigned char)*p <= ' ') {
		p++;
		len--;
	}
	while (len && (unsigned char)p[len - 1] <= ' ')
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].word) == len &&
		    (len == 2 && lower(*p) == 'm' && lower(p[1]) == 'w'
			 ? !memcmp(units[i].word, p, len)
			 : !strncasecmp(units[i].word, p, len)))
			return units[i].unit;
	return UNIT_NONE;
}

/* "power.draw [W]", "GPU use (%)": the name's length without its unit. */
static size_t name_unit(const char *p, size_t len, enum gpu_unit *ret)
{
	size_t open;

	*ret = UNIT_NONE;
	while (len && ((unsigned char)p[len - 1] <= ' ' || p[len - 1] == ':'))
		len--;
	if (len < 3 || (p[len - 1] != ']' && p[len - 1] != ')'))
		return len;
	open = len - 1;
	while (open && p[open] != '[' && p[open] != '(')
		open--;
	if (!open)
		return len;
	*ret = gpu_unit_of(p + open + 1, len - open - 2);
	return *ret == UNIT_NONE ? len : open;
}

const struct gpu_metric_name *gpu_metric_find(const char *name, size_t len, enum gpu_unit *ret_unit)
{
	char plain[GPU_NAME_MAX];
	enum gpu_unit unit;
	size_t n = 0;

	len = name_unit(name, len, &unit);
	for (size_t i = 0; i < len; i++) {
		if (!is_alnum(name[i]))
			continue;
		if (n + 1 == sizeof(plain))
			return NULL;
		plain[n++] = lower(name[i]);
	}
	plain[n] = 0;
	for (size_t i = 0; n && i < ARRAY_SIZE(names); i++)
		if (names[i].name[0] == plain[0] && !strcmp(names[i].name, plain)) {
			if (ret_unit)
				*ret_unit = unit == UNIT_NONE ? names[i].unit : unit;
			return &names[i];
		}
	return NULL;
}

/* "gpu.3.", "gpu3_", "card3/": behind it, and the number; NULL. */
static const char *behind_gpu_number(const char *p, const char *end, int64_t *ret)
{
	for (const char *at = p; end - at >= 4; at++) {
		const char *d = at + 3;
		int64_t v = 0;

		if (strncasecmp(at, "gpu", 3) || (at > p && is_alnum(at[-1])))
			continue;
		d += *d && strchr("._-:[/", *d);
		if (d == end || *d < '0' || *d > '9')
			continue;
		for (; d < end && *d >= '0' && *d <= '9' && v < GPU_INDEX_MAX; d++)
			v = v * 10 + (*d - '0');
		if (d == end || !*d || !strchr("._-:]/ ", *d))
			continue;
		*ret = v;
		return d + 1;
	}
	return NULL;
}

const struct gpu_metric_name *gpu_metric_find_indexed(const char *name, size_t len,
						      int64_t *ret_gpu, enum gpu_unit *ret_unit)
{
	const char *end = name + len, *digits = end, *rest;
	const struct gpu_metric_name *row;
	int64_t v = 0;

	rest = behind_gpu_number(name, end, ret_gpu);
	if (rest && end - rest == 3 && !memcmp(rest, "gpu", 3)) /* wandb's utilization */
		return gpu_metric_find("gpu_util", 8, ret_unit);
	if (rest)
		return gpu_metric_find(rest, (size_t)(end - rest), ret_unit);
	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	if (digits == end || digits - name < 2 || end - digits > 4 || !strchr(":._[", digits[-1]))
		return NULL;
	for (rest = digits; rest < end; rest++)
		v = v * 10 + (*rest - '0');
	row = gpu_metric_find(name, (size_t)(digits - name) - 1, ret_unit);
	if (!row || row->metric >= GPU_SAMPLE_METRICS)
		return NULL;
	*ret_gpu = v;
	return row;
}

/* --- values --- */

bool gpu_number(const char *p, size_t len, double *ret, enum gpu_unit *ret_unit)
{
	char copy[48], *end;
	double v;

	while (len && ((unsigned char)*p <= ' ' || *p == '"' || *p == '(')) {
		p++;
		len--;
	}
	while (len && ((unsigned char)p[len - 1] <= ' ' || p[len - 1] == '"' || p[len - 1] == ')'))
		len--;
	/* strtod knows "nan", "inf" and hexadecimal numbers: none of them is a value here. */
	if (!len || len >= sizeof(copy) ||
	    !(*p == '-' || *p == '+' || *p == '.' || (*p >= '0' && *p <= '9')))
		return false;
	memcpy(copy, p, len);
	copy[len] = 0;
	v = strtod(copy, &end);
	if (end == copy || !isfinite(v) || (len > 1 && lower(p[1]) == 'x'))
		return false;
	*ret_unit = gpu_unit_of(end, strlen(end));
	if (*end && *ret_unit == UNIT_NONE)
		return false;
	*ret = v;
	return true;
}

static bool is_blank(double v)
{
	return (v >= DCGM_BLANK_32 && v <= DCGM_BLANK_32 + DCGM_BLANK_KINDS) ||
	       (v >= DCGM_BLANK_FP && v <= DCGM_BLANK_FP + DCGM_BLANK_KINDS) || v >= DCGM_BLANK_64;
}

static const struct {
	size_t offset;
	double min, max; /* what can be believed, in the sample's unit */
} fields[GPU_SAMPLE_METRICS] = {
	[GPU_POWER] = { offsetof(struct gpu_sample, power_w), 0, 20000 },
	/* 0 W is what a die says whose board is counted by another one. */
	[GPU_LIMIT] = { offsetof(struct gpu_sample, limit_w), 1, 20000 },
	[GPU_UTILIZATION] = { offsetof(struct gpu_sample, utilization), 0, 1.05 },
	[GPU_MEMORY_UTIL] = { offsetof(struct gpu_sample, memory_util), 0, 1.05 },
	[GPU_MEMORY_USED] = { offsetof(struct gpu_sample, memory_used_mib), 0, 16.0 * 1024 * 1024 },
	[GPU_SM_CLOCK] = { offsetof(struct gpu_sample, sm_clock_mhz), 0, 20000 },
	[GPU_TEMPERATURE] = { offsetof(struct gpu_sample, temperature_c), -60, 250 },
	[GPU_TENSOR_ACTIVE] = { offsetof(struct gpu_sample, tensor_active), 0, 1.05 },
	[GPU_SM_ACTIVE] = { offsetof(struct gpu_sample, sm_active), 0, 1.05 },
};

static float *sample_field(struct gpu_sample *s, enum gpu_metric m)
{
	return (float *)(void *)((char *)s + fields[m].offset);
}

struct gpu_reading gpu_reading_unknown(void)
{
	return (struct gpu_reading){
		.sample = gpu_sample_unknown(),
		.host = NO_ID,
		.uuid = NO_ID,
		.bus_id = NO_ID,
		.model = NO_ID,
		.throttle = NO_ID,
		.index = -1,
		.rank = -1,
		.xid = -1,
		.processes = -1,
	};
}

static double in_own_unit(double v, enum gpu_unit unit)
{
	static const double scale[] = {
		[UNIT_NONE] = 1,
		[UNIT_W] = 1,
		[UNIT_MILLIWATT] = 1e-3,
		[UNIT_PERCENT] = .01,
		[UNIT_RATIO] = 1,
		[UNIT_MIB] = 1,
		[UNIT_BYTES] = 1.0 / (1024 * 1024),
		[UNIT_MHZ] = 1,
		[UNIT_CELSIUS] = 1,
	};

	return v * scale[unit];
}

bool gpu_reading_number(struct gpu_reading *r, const struct gpu_metric_name *name, double v,
			enum gpu_unit unit)
{
	if (!isfinite(v) || is_blank(v))
		return false;
	if (name->metric < GPU_SAMPLE_METRICS) {
		float *field = sample_field(&r->sample, name->metric);

		v = in_own_unit(v, unit);
		if (v < fields[name->metric].min || v > fields[name->metric].max)
			return false;
		if (!isnan(*field) && r->weight[name->metric] > name->weight)
			return true;
		*field = (float)v;
		r->weight[name->metric] = name->weight;
		r->any = true;
		return true;
	}
	if (v < 0 || v > 1e9)
		return false;
	if (name->metric == GPU_INDEX && v < GPU_INDEX_MAX)
		r->index = (int64_t)v;
	else if (name->metric == GPU_RANK)
		r->rank = (int64_t)v;
	else if (name->metric == GPU_PROCESSES)
		r->processes = (int64_t)v;
	else if (name->metric == GPU_XID && v > 0)
		r->xid = (int64_t)v;
	return true;
}

/* "[N/A]", "[Not Supported]", "N/A", "-", "ERR!", "[Unknown Error]", "nan", "" */
static bool is_missing(const char *p, size_t len)
{
	static const char *const words[] = {
		"N/A", "ERR!", "-", "nan", "none", "null", "[GPU is lost]", "N/A (Secondary die)"
	};

	if (!len || *p == '[')
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == len && !strncasecmp(p, words[i], len))
			return true;
	return len > 13 && !strncasecmp(p, "not supported", 13);
}

uint32_t gpu_text(struct testimony *t, const char *p, size_t len)
{
	while (len && ((unsigned char)*p <= ' ' || *p == '"')) {
		p++;
		len--;
	}
	while (len && ((unsigned char)p[len - 1] <= ' ' || p[len - 1] == '"'))
		len--;
	if (!len)
		return NO_ID;
	len = MIN(len, GPU_TEXT_MAX);
	if (t->names.n < GPU_NAMES_MAX)
		return testimony_name(t, p, len);
	t->dropped++; /* that many are not of GPUs that are kept */
	return intern_find(&t->names, p, len);
}

/* The reasons of NVML's mask that mean that something holds the clocks down. */
static uint32_t throttle_mask(struct testimony *t, unsigned long long mask)
{
	static const struct {
		unsigned long long bit;
		const char *words;
	} reasons[] = {
		{ 0x4, "sw power cap" },	 { 0x8, "hw slowdown" },
		{ 0x20, "sw thermal slowdown" }, { 0x40, "hw thermal slowdown" },
		{ 0x80, "hw power brake" },
	};
	char text[GPU_TEXT_MAX] = "";
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (mask & reasons[i].bit) {
			size_t len = strlen(reasons[i].words);

			if (n) {
				text[n++] = ',';
				text[n++] = ' ';
			}
			memcpy(text + n, reasons[i].words, len + 1);
			n += len;
		}
	return n ? testimony_name(t, text, n) : NO_ID;
}

static uint32_t throttle_of(struct testimony *t, const char *p, size_t len)
{
	char copy[32], *end;

	if (len > 2 && len < sizeof(copy) && p[0] == '0' && lower(p[1]) == 'x') {
		unsigned long long mask;

		memcpy(copy, p, len);
		copy[len] = 0;
		mask = strtoull(copy, &end, 16);
		return *end ? NO_ID : throttle_mask(t, mask);
	}
	if (len < sizeof(copy) && len && *p >= '0' && *p <= '9') {
		double v;
		enum gpu_unit unit;

		return gpu_number(p, len, &v, &unit) && v < 1e9
			   ? throttle_mask(t, (unsigned long long)v)
			   : NO_ID;
	}
	return strncasecmp(p, "not active", MIN(len, 10u)) ? gpu_text(t, p, len) : NO_ID;
}

/* "clocks_throttle_reasons.hw_slowdown" -> "hw slowdown" */
static uint32_t throttle_reason(struct testimony *t, const char *plain)
{
	static const struct {
		const char *end, *words;
	} ends[] = {
		{ "hwslowdown", "hw slowdown" },
		{ "hwthermalslowdown", "hw thermal slowdown" },
		{ "hwpowerbrakeslowdown", "hw power brake" },
		{ "swthermalslowdown", "sw thermal slowdown" },
		{ "swpowercap", "sw power cap" },
	};
	size_t len = strlen(plain);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t n = strlen(ends[i].end);

		if (len > n && !strcmp(plain + len - n, ends[i].end) && plain[len - n - 1] == 's')
			return testimony_name(t, ends[i].words, strlen(ends[i].words));
	}
	return NO_ID;
}

void gpu_reading_text(struct gpu_reading *r, struct testimony *t,
		      const struct gpu_metric_name *name, enum gpu_unit unit, const char *p,
		      size_t len, uint64_t *bad)
{
	enum gpu_unit own;
	double v;

	while (len && ((unsigned char)*p <= ' ' || *p == '"')) {
		p++;
		len--;
	}
	while (len && ((unsigned char)p[len - 1] <= ' ' || p[len - 1] == '"'))
		len--;
	if (is_missing(p, len))
		return;
	switch (name->metric) {
	case GPU_UUID:
		r->uuid = gpu_text(t, p, len);
		return;
	case GPU_BUS_ID:
		r->bus_id = gpu_text(t, p, len);
		return;
	case GPU_MODEL:
		r->model = gpu_text(t, p, len);
		return;
	case GPU_HOST:
		r->host = gpu_text(t, p, len);
		return;
	case GPU_THROTTLE:
		r->throttle = throttle_of(t, p, len);
		return;
	case GPU_THROTTLE_REASON:
		if (len == 6 && !strncasecmp(p, "active", 6))
			r->throttle = throttle_reason(t, name->name);
		return;
	case GPU_INDEX: /* "nvidia0", "card0", "GPU 3", "cuda:2" */
		while (len && (*p < '0' || *p > '9')) {
			p++;
			len--;
		}
		break;
	default:
		break;
	}
	if (!gpu_number(p, len, &v, &own) ||
	    !gpu_reading_number(r, name, v, own == UNIT_NONE ? unit : own))
		++*bad;
}

bool gpu_reading_store(const struct gpu_reading *r, struct testimony *t)
{
	uint32_t id = r->uuid != NO_ID ? r->uuid : r->bus_id;
	struct gpu_series *g;
	char name[32];

	/* What tells GPUs apart of which only the rank is known. */
	if (r->index < 0 && id == NO_ID && r->rank >= 0)
		id = testimony_name(t, name,
				    (size_t)snprintf(name, sizeof(name), "rank %" PRId64, r->rank));
	if (!r->any && r->xid < 0 && r->throttle == NO_ID)
		return false;
	g = testimony_gpu(t, r->host, r->index, id);
	if (!g)
		return false;
	if (g->uuid == NO_ID)
		g->uuid = r->uuid;
	if (g->model == NO_ID)
		g->model = r->model;
	if (r->rank >= 0)
		g->rank = r->rank;
	if (r->xid > 0)
		g->xid = r->xid;
	if (r->throttle != NO_ID)
		g->throttle = r->throttle;
	if (r->processes >= 0)
		g->processes = r->processes;
	if (r->any)
		gpu_series_add(t, g, &r->sample);
	return true;
}

/* --- once all is read --- */

/* Does the board draw what only work draws? */
static bool series_works(const struct gpu_series *g)
{
	for (uint32_t i = 0; i < g->n_samples; i++) {
		const struct gpu_sample *s = &g->samples[i];

		if (!isnan(s->limit_w) ? s->power_w >= WORKING_SHARE * s->limit_w
				       : s->power_w >= WORKING_W)
			return true;
	}
	return false;
}

static void ratio_settle(struct gpu_series *g, enum gpu_metric m)
{
	for (uint32_t i = 0; i < g->n_samples; i++)
		if (*sample_field(&g->samples[i], m) > 0)
			return;
	for (uint32_t i = 0; i < g->n_samples; i++)
		*sample_field(&g->samples[i], m) = NAN;
}

/* Percents are whole numbers in every tool that prints them; 0.97 beside no value above 1 is a
   share. */
static void shares_settle(struct testimony *t)
{
	float max = 0;
	bool broken = false;

	for (size_t i = 0; i < t->gpus.n; i++)
		for (uint32_t j = 0; j < t->gpus.v[i].n_samples; j++) {
			float percent = 100 * t->gpus.v[i].samples[j].utilization;

			if (isnan(percent))
				continue;
			max = fmaxf(max, percent);
			broken |= percent < 1 && fabsf(percent - roundf(percent)) > 0.001f;
		}
	if (!broken || max > 1.05f)
		return;
	for (size_t i = 0; i < t->gpus.n; i++)
		for (uint32_t j = 0; j < t->gpus.v[i].n_samples; j++)
			t->gpus.v[i].samples[j].utilization *= 100;
}

void gpu_series_settle(struct testimony *t)
{
	shares_settle(t);
	for (size_t i = 0; i < t->gpus.n; i++) {
		struct gpu_series *g = &t->gpus.v[i];

		if (!series_works(g))
			continue;
		ratio_settle(g, GPU_TENSOR_ACTIVE);
		ratio_settle(g, GPU_SM_ACTIVE);
	}
}
