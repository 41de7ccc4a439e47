/* SPDX-License-Identifier: Apache-2.0 */
/* test_counters.c - counters of ports, from files, listings and tools. */
#include "witness_helpers.h"

static void expect(const char *path, const char *text, const char *counters)
{
	struct witnessed w;

	witness_text(&w, path, text);
	assert_string_equal(w.format, "counters");
	assert_int_equal(w.status, 0);
	assert_string_equal(told_counters(w.t), counters);
	witness_done(&w);
}

static void a_number_alone_goes_by_its_path(void **state)
{
	(void)state;
	expect("h02/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "42\n",
	       "h02 mlx5_0/1 symbol_error 42 42\n");
	expect("node3/mlx5_1/1/hw_counters/out_of_sequence", "7\n",
	       "node3 mlx5_1/1 out_of_sequence 7 7\n");
	expect("h02/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n",
	       "h02 mlx5_0/1 state 1 1\n");
	expect("h02/sys/class/net/eth0/statistics/rx_errors", "3\n", "h02 eth0 rx_errors 3 3\n");
}

static void a_number_alone_anywhere_else_is_none(void **state)
{
	(void)state;
	assert_string_not_equal(witness_format_of("h02/pid", "42\n"), "counters");
	assert_string_not_equal(witness_format_of("counters.txt", "42\n"), "counters");
	assert_string_not_equal(
	    witness_format_of("sys/class/infiniband/mlx5_0/ports/1/counters/x", "forty\n"),
	    "counters");
}

static void listings_read_twice_show_what_grows(void **state)
{
	(void)state;
	expect("counters-h05.txt",
	       "mlx5_0/1/counters/port_xmit_wait 123\nmlx5_0/1/hw_counters/out_of_sequence 4\n"
	       "mlx5_0/1/counters/port_xmit_wait 523\nmlx5_0/1/hw_counters/out_of_sequence 4\n",
	       "h05 mlx5_0/1 port_xmit_wait 123 523\nh05 mlx5_0/1 out_of_sequence 4 4\n");
	expect("x.txt",
	       "# lockstep counters of n7 at 2026-11-30T02:10:00Z\nmlx5_0/1/symbol_error 0\n"
	       "mlx5_0/1/state 4: ACTIVE\n"
	       "# lockstep counters of n7 at 2026-11-30T02:10:02Z\nmlx5_0/1/symbol_error 9\n",
	       "n7 mlx5_0/1 symbol_error 0 9\nn7 mlx5_0/1 state 4 4\n");
}

static void what_grep_prints_of_sys(void **state)
{
	(void)state;
	expect("x.txt",
	       "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0\n"
	       "/sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE\n",
	       " mlx5_0/1 symbol_error 0 0\n mlx5_0/1 state 4 4\n");
	expect("x.txt",
	       "h01: /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:9\n"
	       "h02: /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0\n",
	       "h01 mlx5_0/1 symbol_error 9 9\nh02 mlx5_0/1 symbol_error 0 0\n");
}

static void perfquery_ibstat_ethtool(void **state)
{
	(void)state;
	expect("x.txt",
	       "# Port counters: Lid 12 port 1 (CapMask: 0x5A00)\n"
	       "PortSelect:......................1\nCounterSelect:...................0x0000\n"
	       "SymbolErrorCounter:..............7\nLinkDownedCounter:...............3\n",
	       " lid 12/1 SymbolErrorCounter 7 7\n lid 12/1 LinkDownedCounter 3 3\n");
	expect("x.txt",
	       "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n"
	       "\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 400\n\t\tBase lid: 12\n",
	       " mlx5_0/1 state 1 1\n mlx5_0/1 phys_state 2 2\n mlx5_0/1 rate 400 400\n");
	expect("ethtool-h03.txt",
	       "NIC statistics:\n     rx_packets: 123\n     rx_discards_phy: 12\n"
	       "     tx_pause_ctrl_phy: 4\n     rx9_bytes: 1\n",
	       "h03  rx_discards_phy 12 12\nh03  tx_pause_ctrl_phy 4 4\n");
}

static void prometheus_counters_of_ports_and_boards(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(
	    &w, "node.prom",
	    "node_infiniband_link_downed_total{device=\"mlx5_0\",port=\"1\","
	    "instance=\"h07:9100\"} 2\n"
	    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu=\"3\",Hostname=\"h1\"} 5\n"
	    "DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"3\",Hostname=\"h1\"} 9223372036854775794\n"
	    "node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"} 9\n");
	assert_string_equal(w.format, "prometheus");
	assert_int_equal(w.t->witness, WITNESS_COUNTERS);
	assert_string_equal(told_counters(w.t),
			    "h07 mlx5_0/1 node_infiniband_link_downed_total 2 2\n"
			    "h1 gpu 3 DCGM_FI_DEV_PCIE_REPLAY_COUNTER 5 5\n");
	witness_done(&w);
}

static void text_that_holds_slashes_is_no_listing(void **state)
{
	(void)state;
	assert_string_not_equal(
	    witness_format_of("x.log", "2024/01/16 14:44:16 loading /data/a/1/x 5\n"), "counters");
	assert_string_not_equal(witness_format_of("x.log", "step 5/10 loss 3\nstep 6/10 loss 3\n"),
				"counters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_alone_goes_by_its_path),
		cmocka_unit_test(a_number_alone_anywhere_else_is_none),
		cmocka_unit_test(listings_read_twice_show_what_grows),
		cmocka_unit_test(what_grep_prints_of_sys),
		cmocka_unit_test(perfquery_ibstat_ethtool),
		cmocka_unit_test(prometheus_counters_of_ports_and_boards),
		cmocka_unit_test(text_that_holds_slashes_is_no_listing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
