#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the log reader: one small file for each kind of line, and damaged ones."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "log")
WORK = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=18446744073709551615, Timeout(ms)=600000) ran for 600086 milliseconds before timing out.\n"
GLOG = "[rank3]:[E514 07:12:09.340808597 ProcessGroupNCCL.cpp:632] "
TAG = "[PG ID 0 PG GUID 0(default_pg) Rank 3] "
STATUS = " failure detected by watchdog at work sequence id: 2 PG status: last enqueued work: 315, last completed work: 183\n"
SEEDS = {
    "time_out": GLOG + "[Rank 3] " + WORK + GLOG + TAG + STATUS + "[E x.cpp:1] [Rank 1] " + WORK.replace("NumelIn=1, NumelOut=18446744073709551615, ", ""),
    "dump": GLOG + TAG + "Received a dump signal due to a collective timeout from  rank 4 and we will. Last enqueued NCCL work: 9, last completed NCCL work: 8.\n"
            + GLOG + TAG + "Observed flight recorder dump signal from another rank via TCPStore.\n",
    "desync": GLOG + "Rank 0\n\t - [0] Timeout at collective: ALLREDUCE, #315\n\t     [7, 5-6] finished collective #182, but didn't join collective #183 (count from 1)\n"
              "\t   #315 started ranks:\n\t     [0, 1] started ALLREDUCE\n\t - ranks [2] are the lagging ranks that caused this timeout. They never joined any collectives\n",
    "barrier": "[E g.cpp:1] [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 60000 ms\nRuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
               "collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[1]), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=BROADCAST).\n",
    "traceback": "[rank1]: Traceback (most recent call last):\n[rank3]: Traceback (most recent call last):\n[rank1]:   File \"a\", line 5\n[rank3]: KeyError: 'x'\n"
                 "[rank1]: torch.distributed.DistBackendError: NCCL error\n[rank1]: Last error:\n[rank1]: Cuda failure 'out of memory'\n",
    "summary": "W0907 13:02:58.880000 14610 torch/api.py:1010] Sending process 14689 closing signal SIGTERM\nFailures:\n[1]:\n  time      : 2026-09-07_13:02:58\n  host      : a\n"
               "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 14692)\n  traceback : Traceback (most recent call last):\n    File\n  ValueError: no\n"
               "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 14690)\n",
    "abort": "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 512 vs 320.\n",
    "slurm": "srun: error: n1: tasks 1-3: Out Of Memory\nslurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2024-03-02T20:22:09 DUE TO TIME LIMIT ***\na: line 28:  8156 Killed    python3\n",
    "kernel": "Nov 29 21:31:49 h kernel: [12345.678901] NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=p, off\nNov 29 21:31:49 h kernel: mlx5_core 0000:5e:00.0: mlx5_5: Port module event: Cable error\n"
              "[Tue Nov 29 21:31:49 2022] Out of memory: Killed process 4242 (python3)\n",
    "nccl": "h:174:3274 [1] a.cc:262 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4791> with error 12, opcode 2 hca mlx5_3\n"
            "h:174:3274 [1] NCCL INFO comm 0x5 rank 3 nranks 8 cudaDev 1 commId 0xabc - Init COMPLETE\n",
    "megatron": "".join(f" [2026-11-29 21:12:{i}] iteration        {i}/      50 | elapsed time per iteration (ms): 82.{i} | lm loss: 5.6E+00 |\n" for i in range(10, 20)),
    "bars": "Running tokenizer:   8%|x   | 200000/2800000 [20:00<4:40:00, 155.00 examples/s]\rEpoch 1:  12%|x| 120/1000 [01:00<07:20,  2.00it/s, loss=2.50]\r  1%| | 1/9 [0:1<2, 1.5s/it]\n",
    "epochs": "Epoch: [0][1180/1250]\tTime 0.771 (0.764)\tLoss 2.9911 (4.0210)\nEpoch [1/10], Step [100/600], Loss: 0.5\nepoch 0 done\nstep 5: train loss 2.1, val loss 2.2\n",
    "saves": "saving checkpoint at iteration    5000 to /c\nFinished saving the checkpoint in 12.05 seconds.\nsave-checkpoint ....: (12222.44, 12223.48)\n[#save] [BEGIN] {\"global_step\": 177215}\n",
    "life": "Process rank: 2, device: cuda:2\nusing world size: 64\ntraining stopped: ValueError('x')\nbye\n[after training is done] datetime: 2023-11-29 08:57:30\n",
    "ray": "\033[36m(W pid=835, ip=10.20.143.83)\033[0m [rank38]: ValueError: bad\033[32m [repeated 46x across cluster]\033[0m\n\033]0;title\007x\033[\n",
    "prefixes": "1: [default3]:[rank11]: ValueError: a\n[n-4:3]:KeyError\n[pod/a-3/b] [1,5]<stderr>:[80746] 2026-11-29T21:31:49.250+01:00 | ERROR | a.b:f:1 - OSError: b\n",
    "wrapped": "".join(line.ljust(80) + "\n" for text in 4 * ["INFO:a:b", GLOG + "[Rank 3] " + WORK.strip()] for line in [text[i:i + 80] for i in range(0, len(text), 80)]),
    "held": GLOG + "[Rank 3] " + WORK[:90] + "\n" + WORK[90:] + GLOG + TAG + STATUS[:70] + "\n" + STATUS[70:],
    "stacks": "step 1/3 loss 2.0\n[rank1]: Thread 0x7f3 (most recent call first):\n[rank2]: Current thread 0x7f2 (most recent call first):\n[rank1]:   File \"d.py\", line 3 in f\n"
              "[rank2]:   File \"t.py\", line 8 in g\nProcess 4242: python t.py --rank 3\nThread 4242 (active): \"MainThread\"\n    f (d.py:3)\n3: Thread 7 (idle): \"MainThread\"\n3:     f (d.py:3)\n",
    "table": "step 1/3 loss 2.0\n| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |\n|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |  0 |\n"
             "| N/A   38C    P0   132W / 400W |  61234MiB / 81920MiB |    100%      Default |\n\n| Processes: |\n|    0   N/A  N/A  4239  C   python  61220MiB |\nGPU[1]\t\t: Average Graphics Package Power (W): 93.0\n"
             "==============NVSMI LOG==============\nGPU 00000000:07:00.0\n    Power Readings\n        Power Draw  : 130.50 W\nstep 2/3 loss 2.0\n",
    "nul": "step 1/3 loss 2.0\n\0\0\0\0step 2/3 loss nan\r\n\xff\xfe",
    "numbers": "step 99999999999999999999 loss 1e400\nstep 1,234,567/9,999 loss -inf time 1e-400s tps: 1,2\n[rank99999999999999999999]: E\n",
}


def main():
    os.makedirs(HERE, exist_ok=True)
    for name, text in SEEDS.items():
        with open(os.path.join(HERE, name), "wb") as f:
            f.write(text.encode("latin-1"))


if __name__ == "__main__":
    main()
