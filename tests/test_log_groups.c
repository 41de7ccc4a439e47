/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_groups.c - what process groups, NCCL, launchers and machines say, old and new. */
#include "log_helpers.h"

static void time_outs_of_every_torch(void **state)
{
	static const struct row rows[] = {
		{ "[E ProcessGroupNCCL.cpp:566] [Rank 3] Watchdog caught collective operation "
		  "timeout: "
		  "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1804406 milliseconds "
		  "before "
		  "timing out.\n",
		  "time-out rank=3 local=3 all_reduce timeout=1800000 ran=1804406\n" },
		{ "[E ProcessGroupNCCL.cpp:828] [Rank 5] Watchdog caught collective operation "
		  "timeout: "
		  "WorkNCCL(SeqNum=11262, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800590 "
		  "millis"
		  "econds before timing out.\n",
		  "time-out rank=5 local=5 all_reduce seq=11262 timeout=1800000 ran=1800590\n" },
		{ "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation "
		  "timeout: "
		  "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
		  "Timeout(ms)=1800000) ran"
		  " for 1800570 milliseconds before timing out.\n"
		  "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with "
		  "exception"
		  ": [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, "
		  "OpType=A"
		  "LLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800570 "
		  "milliseconds b"
		  "efore timing out.\n",
		  "time-out rank=1 local=1 all_reduce in=1 out=1 seq=2 timeout=1800000 ran=1800570 "
		  "x2\n" },
		{ "[rank14]:[E ProcessGroupNCCL.cpp:523] [Rank 6] Watchdog caught collective "
		  "operation "
		  "timeout: WorkNCCL(SeqNum=7, OpType=COALESCED, NumelIn=18446744073709551615, "
		  "NumelOut"
		  "=18446744073709551615, Timeout(ms)=600000) ran for 600203 milliseconds before "
		  "timing"
		  " out.\n",
		  "time-out rank=14 local=6 send_recv seq=7 timeout=600000 ran=600203\n" },
		{ "[rank2]:[E ProcessGroupNCCL.cpp:563] [Rank 2] Watchdog caught collective "
		  "operation t"
		  "imeout: WorkNCCL(SeqNum=9, OpType=_REDUCE_SCATTER_BASE, NumelIn=64, NumelOut=8, "
		  "Time"
		  "out(ms)=600000) ran for 600001 milliseconds before timing out.\n"
		  "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 9, "
		  "last en"
		  "queued NCCL work: 12, last completed NCCL work: 93459313471793.\n",
		  "time-out rank=2 local=2 group=0 reduce_scatter in=64 out=8 seq=9 timeout=600000 "
		  "ran="
		  "600001\n"
		  "status rank=2 local=2 group=0 seq=12\n" },
		{ "[rank5]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog "
		  "caught"
		  " collective operation timeout: WorkNCCL(SeqNum=40, OpType=_ALLGATHER_BASE, "
		  "NumelIn=8"
		  ", NumelOut=64, Timeout(ms)=600000) ran for 600010 milliseconds before timing "
		  "out.\n"
		  "[rank5]:[E1206 18:44:12.715400000 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 1] "
		  "Exception"
		  " (either an error or timeout) detected by watchdog at work: 40, last enqueued "
		  "NCCL w"
		  "ork: 41, last completed NCCL work: 39.\n",
		  "time-out rank=5 local=1 group=1 all_gather in=8 out=64 seq=40 timeout=600000 "
		  "ran=600"
		  "010\n"
		  "status rank=5 local=1 group=1 seq=41 value=39\n" },
		{ "[rank7]:[E219 06:31:22.864467604 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog "
		  "caught "
		  "collective operation timeout: WorkNCCL(SeqNum=216, OpType=ALLTOALL_BASE, "
		  "NumelIn=137"
		  "9328, NumelOut=1572864, Timeout(ms)=600000) ran for 600045 milliseconds before "
		  "timin"
		  "g out.\n"
		  "[rank7]:[E219 06:31:22.864535778 ProcessGroupNCCL.cpp:1795] [PG ID 2 PG GUID "
		  "9(mesh_"
		  "ep) Rank 1] Exception (either an error or timeout) detected by watchdog at "
		  "work: 216"
		  ", last enqueued NCCL work: 220, last completed NCCL work: 215.\n",
		  "time-out rank=7 local=1 group=9(mesh_ep) all_to_all in=1379328 out=1572864 "
		  "seq=216 t"
		  "imeout=600000 ran=600045\n"
		  "status rank=7 local=1 group=9(mesh_ep) seq=220 value=215\n" },
		{ "[rank0]:[E514 07:12:09.340808597 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog "
		  "caught "
		  "collective operation timeout: WorkNCCL(SeqNum=241, OpType=ALLREDUCE, NumelIn=6, "
		  "Nume"
		  "lOut=6, Timeout(ms)=600000) ran for 600086 milliseconds before timing out.\n"
		  "[rank0]:[E514 07:12:09.340991940 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID "
		  "0(defau"
		  "lt_pg) Rank 0]  failure detected by watchdog at work sequence id: 241 PG "
		  "status: las"
		  "t enqueued work: 315, last completed work: -1\n",
		  "time-out rank=0 local=0 group=0(default_pg) all_reduce in=6 out=6 seq=241 "
		  "timeout=60"
		  "0000 ran=600086\n"
		  "status rank=0 local=0 group=0(default_pg) seq=315\n" },
		{ "[rank3]:[E805 11:20:30.411244289 ProcessGroupNCCL.cpp:733] [Rank 3] Watchdog "
		  "caught "
		  "collective operation timeout: WorkNCCL(SeqNum=10, OpType=ALLREDUCE, NumelIn=2, "
		  "Numel"
		  "Out=2, Timeout(ms)=7200000) ran for 7200015 milliseconds before timing out.\n"
		  "[rank3]:[E805 11:20:30.411244289 ProcessGroupNCCL.cpp:744] Stack trace of the "
		  "failed"
		  " collective: \n"
		  "#0 all_reduce from /opt/torch/distributed/distributed_c10d.py:2806\n"
		  "#1 wrapper from /opt/torch/distributed/c10d_logger.py:83\n",
		  "time-out rank=3 local=3 all_reduce in=2 out=2 seq=10 timeout=7200000 "
		  "ran=7200015\n" },
		{ "RuntimeError: [Rank 4] Work WorkNCCL(SeqNum=12, OpType=BROADCAST, NumelIn=5, "
		  "NumelOu"
		  "t=5, Timeout(ms)=60000) timed out in blocking wait.\n",
		  "time-out rank=4 local=4 broadcast in=5 out=5 seq=12 timeout=60000\n" },
		{ "[rank1]: [Rank 1] Watchdog caught collective operation timeout: "
		  "WorkHCCL(SeqNum=3, O"
		  "pType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800012 milliseconds before "
		  "timing out"
		  ".\n",
		  "time-out rank=1 local=1 all_reduce seq=3 timeout=1800000 ran=1800012\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void dump_lines_tell_who_was_told(void **state)
{
	static const struct row rows[] = {
		{ "[rank0]:[E429 21:44:49.101220874 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID "
		  "0(defau"
		  "lt_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 4 "
		  "and w"
		  "e will try our best to dump the debug info. Last enqueued NCCL work: 9386, last "
		  "comp"
		  "leted NCCL work: 9386.This is most likely caused by incorrect usages of "
		  "collectives\n",
		  "dump-signal rank=0 local=0 peer=4 group=0(default_pg) seq=9386 value=9386\n" },
		{ "[rank4]:[E429 21:44:49.101220874 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID "
		  "0(defau"
		  "lt_pg) Rank 4] Received a dump signal due to a collective timeout from this "
		  "local ra"
		  "nk and we will try our best to dump the debug info. Last enqueued NCCL work: "
		  "9387, l"
		  "ast completed NCCL work: 9386.\n",
		  "dump-local rank=4 local=4 group=0(default_pg) seq=9387 value=9386\n" },
		{ "[rank2]:[E1122 10:00:00.100000000 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID "
		  "0(defa"
		  "ult_pg) Rank 2] Observed flight recorder dump signal from another rank via "
		  "TCPStore.\n",
		  "dump-signal rank=2 local=2 group=0(default_pg)\n" },
		{ "[rank5]:[E ProcessGroupNCCL.cpp:1182] [PG 0 Rank 5] Received a global timeout "
		  "from a"
		  "nother rank and will start to dump the debug info. Last enqueued NCCL work: 3, "
		  "last "
		  "completed NCCL work: 2.\n",
		  "dump-signal rank=5 local=5 group=0 seq=3 value=2\n" },
		{ "[rank6]:[E ProcessGroupNCCL.cpp:1182] [PG 0 (default_pg) Rank 6] Received a "
		  "timeout "
		  "signal from this local rank and will start to dump the debug info. Last "
		  "enqueued NCC"
		  "L work: 3, last completed NCCL work: 2.\n",
		  "dump-local rank=6 local=6 group=0(default_pg) seq=3 value=2\n" },
		{ "[rank1]:[F ProcessGroupNCCL.cpp:1173] [Rank 1] [PG 0 Rank 1] ProcessGroupNCCL's "
		  "watc"
		  "hdog got stuck for 600 seconds without making progress in monitoring enqueued "
		  "collec"
		  "tives.\n",
		  "heartbeat rank=1 local=1 group=0\n" },
		{ "[rank1]:[E ProcessGroupNCCL.cpp:1153] [Rank 1] Heartbeat monitor timed out! "
		  "Process "
		  "will be terminated after dumping debug info. workMetaList_.size()=2\n",
		  "heartbeat rank=1 local=1\n" },
		{ "[rank2]:[W1122 10:00:01.5 ProcessGroupNCCL.cpp:1610] [PG ID 0 PG GUID 0 Rank 2] "
		  "Fail"
		  "ed to check the \"should dump\" flag on TCPStore, (maybe TCPStore server has "
		  "shut do"
		  "wn too early), with error: Connection reset by peer\n",
		  "store-lost rank=2 local=2 group=0\n" },
		{ "[rank3]:[W TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=54, "
		  "addr=[h]:1"
		  ", remote=[r]:29500): Connection reset by peer\n",
		  "store-lost rank=3\n" },
		{ "RuntimeError: NCCL communicator was aborted on rank 3.  Original reason for "
		  "failure "
		  "was: NCCL error: unhandled system error\n",
		  "aborted rank=3 local=3\n" },
		{ "[rank2]: RuntimeError: [2] is setting up NCCL communicator and retrieving "
		  "ncclUnique"
		  "Id from [0] via c10d key-value store by key '0', but store->get('0') got error: "
		  "Sock"
		  "et Timeout\n",
		  "comm-setup rank=2 local=2 peer=0\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void desync_reports(void **state)
{
	static const struct row rows[] = {
		{ "[rank0]:[E514 07:12:09.340977708 ProcessGroupNCCL.cpp:1937] Rank 0\n"
		  "\t - [0] Timeout at collective: ALLREDUCE, #315\n"
		  "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the "
		  "desync"
		  " are:\n"
		  "\t     [7, 5] finished collective #182, but didn't join collective #183 (count "
		  "from "
		  "1)\n"
		  "\t   [4] joined but didn't finish collective #314 (count from 1)\n"
		  "\t - Snapshot of ranks' latest states:\n"
		  "\t   #182 finished ranks:\n"
		  "\t     [7] finished ALLREDUCE\n"
		  "\t   #315 started ranks:\n"
		  "\t     [0, 1] started ALLREDUCE\n"
		  "\t   #317 started ranks:\n"
		  "\t     [3] started _ALLGATHER_BASE\n",
		  "desync-state rank=0 peer=0 all_reduce seq=315 value=1 x2\n"
		  "desync-lagging rank=0 peer=7 seq=182\n"
		  "desync-lagging rank=0 peer=5 seq=182\n"
		  "desync-state rank=0 peer=4 seq=314 value=1\n"
		  "desync-state rank=0 peer=1 all_reduce seq=315 value=1\n" },
		{ "[E ProcessGroupNCCL.cpp:1137] [Rank 2]\n"
		  "\t - [2] Timeout at collective: BROADCAST, #3\n"
		  "\t - ranks [0, 1] are the lagging ranks that caused this timeout. They never "
		  "joined "
		  "any collectives\n",
		  "desync-state rank=2 peer=2 broadcast seq=3 value=1\n"
		  "desync-lagging rank=2 peer=0 seq=0\n"
		  "desync-lagging rank=2 peer=1 seq=0\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void barriers_and_mismatches(void **state)
{
	static const struct row rows[] = {
		{ "[E ProcessGroupGloo.cpp:138] [Rank 0]: Rank 3 failed to pass monitoredBarrier "
		  "in 600"
		  "00 ms\n",
		  "not-joined rank=0 local=0 peer=3 timeout=60000\n" },
		{ "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 "
		  "ms\n",
		  "not-joined rank=0 local=0 peer=1 timeout=30000\n"
		  "not-joined rank=0 local=0 peer=3 timeout=30000\n" },
		{ "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
		  "coll"
		  "ective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, "
		  "TensorShape=[1, 2]"
		  ", TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
		  "device="
		  "cuda)), but Rank 1 is running collective: "
		  "CollectiveFingerPrint(SequenceNumber=5, Op"
		  "Type=BROADCAST, TensorShape=[8]).\n",
		  "desync-state peer=0 all_reduce seq=5 value=1\n"
		  "desync-state peer=1 broadcast seq=5 value=1\n"
		  "fatal what=collective mismatch\n" },
		{ "[rank2]:terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
		  "[rank2]:  what():  [enforce fail at "
		  "third_party/gloo/gloo/transport/tcp/pair.cc:456]"
		  " op.preamble.length <= op.nbytes. 512 vs 320. Received data size doesn't match "
		  "expec"
		  "ted size.\n",
		  "fatal rank=2 what=gloo size mismatch\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void prefixes_of_launchers(void **state)
{
	static const struct row rows[] = {
		{ "1: [rank8]:[E ProcessGroupNCCL.cpp:523] [Rank 8] Watchdog caught collective "
		  "operatio"
		  "n timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
		  "Timeout(ms)=6"
		  ") ran for 7 milliseconds before timing out.\n",
		  "time-out rank=8 local=8 all_reduce in=1 out=1 seq=1 timeout=6 ran=7\n" },
		{ "[default3]:[rank11]: ValueError: bad\n",
		  "exception rank=11 local=3 what=ValueError\n" },
		{ "[default3]:ValueError: bad\n", "exception local=3 what=ValueError\n" },
		{ "[node-4:3]:ValueError: bad\n",
		  "exception local=3 host=node-4 what=ValueError\n" },
		{ "\033[36m(WorkerDict pid=835, ip=10.20.143.83)\033[0m [rank38]: ValueError: "
		  "bad\033[3"
		  "2m [repeated 46x across cluster] (Ray deduplicates logs by default.)\033[0m\n",
		  "folded\n"
		  "exception rank=38 pid=835 host=10.20.143.83 what=ValueError\n" },
		{ "vm-07-14: [2023-11-29 08:50:44,619] [ERROR] [engine.py:12:step] ValueError: "
		  "bad\n",
		  "exception host=vm-07-14 what=ValueError ms=1701247844619\n" },
		{ "[pod/job-worker-3/pytorch] [rank3]: ValueError: bad\n",
		  "exception rank=3 host=job-worker-3 what=ValueError\n" },
		{ "[1,5]<stderr>:ValueError: bad\n", "exception rank=5 what=ValueError\n" },
		{ "[80746] [rank1]: ValueError: bad\n"
		  "[76/904$ [rank2]: ValueError: bad\n",
		  "exception rank=1 what=ValueError\n"
		  "exception rank=2 what=ValueError\n" },
		{ "2024-03-02 20:11:31,044: rank7[41021][MainThread]: ERROR: ValueError: bad\n",
		  "exception rank=7 pid=41021 what=ValueError ms=1709410291044\n" },
		{ "2026-11-29T21:31:49.250+01:00 [rank4]:[rank4]: ValueError: bad\n",
		  "exception rank=4 what=ValueError ms=1795984309250\n" },
		{ "worker-1  | [rank: 2] ValueError: bad\n",
		  "exception rank=2 host=worker-1 what=ValueError\n" },
		{ "[rank1]: \033[31mValueError: bad\033[0m\n",
		  "exception rank=1 what=ValueError\n" },
		{ "2024-05-06 07:08:09.123 | ERROR    | train.loop:step:12 - ValueError: bad\n",
		  "exception what=ValueError ms=1714979289123\n" },
		{ "[NeMo E 2024-03-01 10:11:12 exp_manager:123] ValueError: bad\n",
		  "exception what=ValueError ms=1709287872000\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void what_nccl_says(void **state)
{
	static const struct row rows[] = {
		{ "gpu-h01:174:3274 [1] misc/ibvwrap.cc:262 NCCL WARN NET/IB : Got completion from "
		  "peer"
		  " 10.0.0.1<4791> with error 12, opcode 2, len 1, vendor err 129 (Recv)\n",
		  "network-error value=12 pid=174 host=gpu-h01 what=network\n" },
		{ "[rank3]: gpu-h01:174:3274 [1] transport/net_ib.cc:2 NCCL WARN NET/IB: Got "
		  "completion"
		  " from peer 10.0.0.1<4791> with status=12 opcode=2 len=0 vendor err 129 (Recv) "
		  "hca ml"
		  "x5_3\n",
		  "network-error value=12 pid=174 host=gpu-h01 what=mlx5_3\n" },
		{ "gpu-h01:174:3274 [1] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<4791> "
		  "statu"
		  "s=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_3\n",
		  "network-error value=12 pid=174 host=gpu-h01 what=mlx5_3\n" },
		{ "[rank5]: gpu-h01:174:3274 [1] transport/net_ib.cc:99 NCCL WARN NET/IB : "
		  "mlx5_0:1 Got"
		  " async event : port error\n",
		  "network-error pid=174 host=gpu-h01 what=mlx5_0:1\n" },
		{ "gpu-h01:174:3274 [1] NCCL WARN NET/IB : Got async event : port error\n",
		  "network-error pid=174 host=gpu-h01 what=network\n" },
		{ "gpu-h01:174:3274 [1] misc/socket.cc:57 NCCL WARN socketProgress: Connection "
		  "closed b"
		  "y remote peer gpu-h02<4123>\n",
		  "peer-lost pid=174 gpu=1 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [1] init.cc:880 NCCL WARN Duplicate GPU detected : rank 1 and "
		  "rank "
		  "0 both on CUDA device 1a000\n",
		  "configuration local=1 peer=0 pid=174 gpu=1 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [1] enqueue.cc:1 NCCL WARN Cuda failure 'an illegal memory "
		  "access w"
		  "as encountered'\n",
		  "gpu-error pid=174 gpu=1 host=gpu-h01 what=illegal memory access\n" },
		{ "gpu-h01:174:3274 [1] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface "
		  "found\n",
		  "configuration pid=174 gpu=1 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [1] proxy.cc:1497 NCCL WARN [Service thread] Could not receive "
		  "type"
		  " from localRank 1, res=3, closed=0\n",
		  "peer-lost pid=174 gpu=1 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [1] NCCL INFO comm 0x5555 rank 3 nranks 8 cudaDev 1 nvmlDev 1 "
		  "busId"
		  " 1b000 commId 0xabc - Init COMPLETE\n",
		  "hello rank=3 local=3 group=0xabc value=8 pid=174 gpu=1 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [0] NCCL INFO comm 0x5555 rank 0 nranks 2 cudaDev 0 busId "
		  "1b000 com"
		  "mId 0xabc - Init COMPLETE\n"
		  "gpu-h01:175:3275 [1] NCCL INFO comm 0x5555 rank 1 nranks 2 cudaDev 1 busId "
		  "2b000 com"
		  "mId 0xabc - Init COMPLETE\n"
		  "gpu-h01:176:3276 [2] NCCL INFO comm 0x5555 rank 0 nranks 2 cudaDev 2 busId "
		  "2b000 com"
		  "mId 0xdef - Init COMPLETE\n",
		  "hello local=0 group=0xabc pid=174 gpu=0 host=gpu-h01\n"
		  "hello local=1 group=0xabc pid=175 gpu=1 host=gpu-h01\n"
		  "hello local=0 group=0xdef pid=176 gpu=2 host=gpu-h01\n" },
		{ "gpu-h01:174:3274 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", "" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void hosts_kernels_and_schedulers(void **state)
{
	static const struct row rows[] = {
		{ "srun: error: nid005031: task 1: Exited with exit code 1\n"
		  "srun: Terminating StepId=6120441.0\n"
		  "slurmstepd: error: *** STEP 6120441.0 ON nid005030 CANCELLED AT "
		  "2024-03-02T20:22:09 "
		  "***\n"
		  "srun: error: nid005030: task 0: Terminated\n",
		  "exit value=1 host=nid005031 what=task 1\n"
		  "stopped value=15 host=nid005030 ms=1709410929000\n"
		  "stopped value=15 host=nid005030 what=task 0\n" },
		{ "slurmstepd: error: *** JOB 1809655 ON r6i4n3 CANCELLED AT 2021-05-24T09:50:34 "
		  "DUE TO"
		  " TIME LIMIT ***\n",
		  "cancelled host=r6i4n3 what=time limit ms=1621849834000\n" },
		{ "slurmstepd: error: *** JOB 18 ON r6i4n3 CANCELLED AT 2021-05-24T09:50:34 DUE TO "
		  "PREE"
		  "MPTION ***\n",
		  "cancelled host=r6i4n3 what=preempted ms=1621849834000\n" },
		{ "slurmstepd: error: *** JOB 18 ON r6i4n3 CANCELLED AT 2021-05-24T09:50:34 DUE TO "
		  "NODE"
		  " FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
		  "node-failed what=node failure ms=1621849834000\n" },
		{ "slurmstepd: error: *** JOB 18 ON r6i4n3 CANCELLED AT 2021-05-24T09:50:34 ***\n",
		  "cancelled host=r6i4n3 what=cancelled ms=1621849834000\n" },
		{ "srun: error: Node failure on nid001\n", "node-failed host=nid001\n" },
		{ "slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the "
		  "step ta"
		  "sks have been OOM Killed.\n"
		  "srun: error: nid001277: tasks 1-3: Out Of Memory\n",
		  "out-of-memory value=1 what=host memory\n"
		  "out-of-memory value=1 host=nid001277 what=host memory\n" },
		{ "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  "
		  "pyth"
		  "on3 main.py --epochs 400\n",
		  "exit value=-9 pid=8156\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: [12345.678901] NVRM: Xid (PCI:0000:41:00): 79, "
		  "pid=12"
		  "34, name=python, GPU has fallen off the bus.\n",
		  "gpu-error value=79 pid=1234 host=gpu-12 what=Xid 79\n" },
		{ "[Tue Nov 29 21:31:49 2022] NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', "
		  "name=<un"
		  "known>, Ch 00000008\n",
		  "gpu-error value=31 what=Xid 31 ms=1669757509000\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: Out of memory: Killed process 4242 (python3) "
		  "total-vm"
		  ":1kB\n",
		  "out-of-memory value=1 pid=4242 host=gpu-12 what=host memory\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: Memory cgroup out of memory: Killed process 4243 "
		  "(pt_"
		  "main_thread) total-vm:1kB\n",
		  "out-of-memory value=1 pid=4243 host=gpu-12 what=host memory\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: mlx5_core 0000:5e:00.0: mlx5_5: Port module "
		  "event: mo"
		  "dule 0, Cable error, Bad cable\n",
		  "network-error host=gpu-12 what=mlx5_5\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link "
		  "ACTIVE\n",
		  "" },
		{ "Nov 29 21:31:49 gpu-12 kernel: python3[777]: segfault at 0 ip 00007f sp 00007f "
		  "error"
		  " 4 in libtorch.so\n",
		  "fatal value=11 pid=777 host=gpu-12 what=segmentation fault\n" },
		{ "Nov 29 21:31:49 gpu-12 kernel: INFO: task python3:888 blocked for more than 120 "
		  "seco"
		  "nds.\n",
		  "warning pid=888 host=gpu-12 what=task blocked in the kernel\n" },
		{ "    Reason:       OOMKilled\n", "out-of-memory value=1 what=host memory\n" },
		{ "[ERROR] 2024-07-03-19:45:13 (PID:62743, Device:11, RankID:43) ERR02005 DIST "
		  "internal"
		  " error\n",
		  "fatal rank=43 pid=62743 gpu=11 what=internal error ms=1720035913000\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_outs_of_every_torch),
		cmocka_unit_test(dump_lines_tell_who_was_told),
		cmocka_unit_test(desync_reports),
		cmocka_unit_test(barriers_and_mismatches),
		cmocka_unit_test(prefixes_of_launchers),
		cmocka_unit_test(what_nccl_says),
		cmocka_unit_test(hosts_kernels_and_schedulers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
