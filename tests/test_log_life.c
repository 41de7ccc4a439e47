/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_life.c - how a job goes on and how it ends, in the words of each framework. */
#include "log_helpers.h"

static void tracebacks_of_ranks_that_print_together(void **state)
{
	static const struct row rows[] = {
		{ "[rank1]: Traceback (most recent call last):\n"
		  "[rank3]: Traceback (most recent call last):\n"
		  "[rank1]:   File \"/a/train.py\", line 5, in <module>\n"
		  "[rank3]:   File \"/a/train.py\", line 5, in <module>\n"
		  "[rank1]:     main()\n"
		  "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, "
		  "unhand"
		  "led cuda error\n"
		  "[rank3]: KeyError: 'x'\n"
		  "[rank1]: ncclUnhandledCudaError: Call to CUDA function failed.\n"
		  "[rank1]: Last error:\n"
		  "[rank1]: Cuda failure 'an illegal memory access was encountered'\n"
		  "step 3/5 loss 1.0\n",
		  "gpu-error rank=1 what=illegal memory access\n"
		  "exception rank=3 what=KeyError\n"
		  "progress 3..3/5 lines=1 loss=1\n" },
		{ "Traceback (most recent call last):\n"
		  "  File \"a.py\", line 1, in f\n"
		  "    g()\n"
		  "KeyError: 'a'\n"
		  "\n"
		  "During handling of the above exception, another exception occurred:\n"
		  "\n"
		  "Traceback (most recent call last):\n"
		  "  File \"a.py\", line 2, in g\n"
		  "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.\n",
		  "exception what=KeyError\n"
		  "out-of-memory value=1 what=a loader's worker killed\n" },
		{ "Traceback (most recent call last):\n"
		  "Traceback (most recent call last):\n"
		  "  File \"a.py\", line 1, in f\n"
		  "  File \"a.py\", line 1, in f\n"
		  "ValueError: one\n"
		  "IndexError: two\n",
		  "exception what=ValueError\n"
		  "exception what=IndexError\n" },
		{ "Traceback (most recent call last):\n"
		  "  File \"a.py\", line 1, in f\n",
		  "" },
		{ "╭──── Traceback (most recent call last) ────╮\n"
		  "│ /a/b.py:12 in f │\n"
		  "╰────╯\n"
		  "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
		  "out-of-memory value=0 what=OutOfMemoryError\n" },
		{ "Traceback (most recent call last):\n"
		  "  File \"/opt/bin/torchrun\", line 8, in <module>\n"
		  "    sys.exit(main())\n"
		  "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
		  "" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void what_exceptions_mean(void **state)
{
	static const struct row rows[] = {
		{ "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 "
		  "MiB. GP"
		  "U 2 has a total capacity of 79 GiB\n",
		  "out-of-memory rank=2 value=0 what=torch.OutOfMemoryError\n" },
		{ "[rank2]: torch.cuda.OutOfMemoryError: HIP out of memory.\n",
		  "out-of-memory rank=2 value=0 what=torch.cuda.OutOfMemoryError\n" },
		{ "[rank2]: RuntimeError: CUDA error: an illegal memory access was encountered\n",
		  "gpu-error rank=2 what=illegal memory access\n" },
		{ "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
		  "gpu-error rank=2 what=ECC\n" },
		{ "[rank2]: RuntimeError: CUDA error: device-side assert triggered\n",
		  "exception rank=2 what=device-side assert\n" },
		{ "[rank2]: torch.AcceleratorError: CUDA error: invalid device ordinal\n",
		  "configuration rank=2 what=invalid device ordinal\n" },
		{ "[rank2]: RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by "
		  "peer"
		  " [127.0.0.1]:52408\n",
		  "peer-lost rank=2 what=RuntimeError\n" },
		{ "[rank2]: RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
		  "waitin"
		  "g 1800000ms for recv operation to complete\n",
		  "time-out rank=2 timeout=1800000 what=RuntimeError\n" },
		{ "[rank2]: torch.distributed.DistBackendError: NCCL error: remote process exited "
		  "or th"
		  "ere was a network error, NCCL version 2.21.5\n",
		  "peer-lost rank=2 what=torch.distributed.DistBackendError\n" },
		{ "[rank2]: torch.distributed.DistBackendError: NCCL error: ncclInvalidUsage: "
		  "Duplicate"
		  " GPU detected : rank 1 and rank 0 both on CUDA device 1a000\n",
		  "configuration rank=2 what=duplicate GPU\n" },
		{ "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for "
		  "clients. 1"
		  "/2 clients joined.\n",
		  "rendezvous what=torch.distributed.DistStoreError\n" },
		{ "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
		  "rendezvous "
		  "what=torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n" },
		{ "torch.distributed.DistNetworkError: The client socket has timed out after 60s "
		  "while "
		  "trying to connect to (10.0.0.1, 29500).\n",
		  "rendezvous what=torch.distributed.DistNetworkError\n" },
		{ "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - "
		  "Addres"
		  "s already in use).\n",
		  "configuration what=port in use\n" },
		{ "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. "
		  "DefaultCPUAllocator: can"
		  "'t allocate memory: you tried to allocate 123 bytes\n",
		  "out-of-memory value=1 what=host memory\n" },
		{ "[rank2]: StopIteration\n", "exception rank=2 what=StopIteration\n" },
		{ "KeyboardInterrupt\n", "cancelled what=cancelled\n" },
		{ "torch.distributed.elastic.multiprocessing.api.SignalException: Process 17912 "
		  "got sig"
		  "nal: 15\n",
		  "stopped value=15 pid=17912 what=agent\n" },
		{ "[rank2]:[E ProcessGroupNCCL.cpp:1182] [Rank 2] NCCL watchdog thread terminated "
		  "with "
		  "exception: CUDA error: an illegal memory access was encountered\n",
		  "gpu-error rank=2 what=illegal memory access\n" },
		{ "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing "
		  "this tas"
		  "k.\n",
		  "peer-lost what=ray.exceptions.ActorDiedError\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void launchers_summaries(void **state)
{
	static const struct row rows[] = {
		{ "W0907 13:02:58.880000 14610 "
		  "torch/distributed/elastic/multiprocessing/api.py:1010] S"
		  "ending process 14689 closing signal SIGTERM\n"
		  "W0907 13:03:28.910000 14610 "
		  "torch/distributed/elastic/multiprocessing/api.py:1029] U"
		  "nable to shutdown process 14689 via Signals.SIGTERM, forcefully exiting via "
		  "Signals."
		  "SIGKILL\n"
		  "E0907 13:03:29.402000 14610 "
		  "torch/distributed/elastic/multiprocessing/api.py:984] fa"
		  "iled (exitcode: 1) local_rank: 1 (pid: 14690) of binary: /usr/bin/python\n"
		  "============\n"
		  "train.py FAILED\n"
		  "------------\n"
		  "Failures:\n"
		  "[1]:\n"
		  "  time      : 2026-09-07_13:02:58\n"
		  "  host      : node-1\n"
		  "  rank      : 11 (local_rank: 3)\n"
		  "  exitcode  : -15 (pid: 14692)  (SIGTERM)\n"
		  "  error_file: <N/A>\n"
		  "  traceback : Signal 15 (SIGTERM) received by PID 14692\n"
		  "------------\n"
		  "Root Cause (first observed failure):\n"
		  "[0]:\n"
		  "  time      : 2026-09-07_13:02:57\n"
		  "  host      : node-1\n"
		  "  rank      : 9 (local_rank: 1)\n"
		  "  exitcode  : 1 (pid: 14690)\n"
		  "  error_file: /tmp/err.json\n"
		  "  traceback : Traceback (most recent call last):\n"
		  "    File \"t.py\", line 1, in f\n"
		  "      x\n"
		  "  ValueError: no\n"
		  "  \n"
		  "============\n",
		  "stopped value=15 pid=14689 ms=1788786178880\n"
		  "stopped value=9 pid=14689 ms=1788786208910\n"
		  "exit local=1 value=1 pid=14690 ms=1788786209402\n"
		  "exit rank=11 local=3 value=-15 pid=14692 host=node-1 ms=1788786178000\n"
		  "first-failure rank=9 local=1 value=1 pid=14690 host=node-1 ms=1788786177000\n"
		  "exception rank=9 what=ValueError\n" },
		{ "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 12 "
		  "closing sig"
		  "nal SIGTERM\n"
		  "[2024-02-06 09:44:18,402] torch.distributed.elastic.multiprocessing.api: "
		  "[WARNING] S"
		  "ending process 71123 closing signal SIGTERM\n",
		  "stopped value=15 pid=12\n"
		  "stopped value=15 pid=71123 ms=1707212658402\n" },
		{ "[default] Worker group FAILED. 3/3 attempts left; will restart worker group\n",
		  "restart\n" },
		{ "launcher: rank 5 (pid 27279) exited with signal 9\n",
		  "exit rank=5 value=-9 pid=27279\n" },
		{ "mpirun noticed that process rank 3 with PID 12345 on node gpu07 exited on "
		  "signal 11 "
		  "(Segmentation fault).\n",
		  "exit rank=3 value=-11 pid=12345\n" },
		{ "[2023-11-29 08:57:32,304] [ERROR] [launch.py:321:sigkill_handler] "
		  "['/usr/bin/python'"
		  ", '-u', 't.py'] exits with return code = -9\n",
		  "exit value=-9 ms=1701248252304\n" },
		{ "(raylet) A worker died or was killed while executing a task by an unexpected "
		  "system "
		  "error. Worker IP address: 10.129.167.69 Worker port: 41811 Worker PID: 2394310 "
		  "Worke"
		  "r exit type: SYSTEM_ERROR Worker exit detail: end of file\n",
		  "exit value=-9223372036854775808 pid=2394310 host=10.129.167.69\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void progress_of_frameworks(void **state)
{
	static const struct row rows[] = {
		{ " [2026-11-29 21:12:21] iteration        9/      50 | consumed samples:          "
		  " 36 "
		  "| elapsed time per iteration (ms): 82.3 | learning rate: 3.000000E-04 | global "
		  "batch"
		  " size:     4 | lm loss: 5.672538E+00 | loss scale: 1.0 |\n"
		  " [2026-11-29 21:12:22] iteration       10/      50 | consumed samples:          "
		  " 40 "
		  "| elapsed time per iteration (ms): 93.5 | learning rate: 3.000000E-04 | global "
		  "batch"
		  " size:     4 | lm loss: 5.772538E+00 | loss scale: 1.0 |\n",
		  "progress 9..10/50 lines=2 ms=93.5 loss=5.77254 last_ms=1795986742000\n" },
		{ "vm-1: [2023-11-29 08:52:27,711] [INFO] [logging.py:96:log_dist] [Rank 0] "
		  "step=1, ski"
		  "pped=0, lr=[1.2e-07], mom=[(0.9, 0.95)]\n"
		  "vm-2:  iteration        1/       5 | consumed samples:         2048 | elapsed "
		  "time p"
		  "er iteration (ms): 76015.3 | lm loss: 1.1E+01 |\n"
		  "vm-1: [2023-11-29 08:53:42,835] [INFO] [logging.py:96:log_dist] [Rank 0] "
		  "step=2, ski"
		  "pped=0, lr=[1.2e-07], mom=[(0.9, 0.95)]\n",
		  "progress 1..1/5 lines=1 ms=76015.3 loss=11\n" },
		{ "[2023-11-29 08:52:27,711] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, "
		  "skipped="
		  "0, lr=[1.2e-07], mom=[(0.9, 0.95)]\n"
		  "[2023-11-29 08:52:37,711] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, "
		  "skipped="
		  "0, lr=[1.2e-07], mom=[(0.9, 0.95)]\n",
		  "progress 10..20 lines=2 ms=1000 last_ms=1701247957711\n" },
		{ "[rank0]:[titan] 2026-05-18 16:07:39,051 - root - INFO - \033[31mstep: 22  "
		  "\033[32mlo"
		  "ss:  2.91027  \033[33mgrad_norm:  0.5926  \033[34mmemory:  9.46GiB(64.99%)  "
		  "\033[36m"
		  "tps: 7,094  \033[0mtflops: 0.51\n"
		  "[rank0]:[titan] 2026-05-18 16:07:40,211 - root - INFO - \033[31mstep: 23  "
		  "\033[32mlo"
		  "ss:  2.92318  \033[33mgrad_norm:  0.5576  \033[34mmemory:  9.46GiB(64.99%)  "
		  "\033[36m"
		  "tps: 7,062  \033[0mtflops: 0.51\n",
		  "progress rank=0 22..23 lines=2 ms=1160 tokens/s=7062 loss=2.92318 "
		  "last_ms=1779120460"
		  "211\n" },
		{ "{'loss': 5.6879, 'learning_rate': 0.0003, 'epoch': 0.12, 'step': 1}\n"
		  "{'loss': 5.648, 'learning_rate': 0.0003, 'epoch': 0.25, 'step': 2}\n",
		  "progress 1..2 lines=2 loss=5.648\n" },
		{ "  0%|          | 0/4000 [00:00<?, ?it/s]\r  3%|▎         | 120/4000 "
		  "[10:00<5:00:00, "
		  " 1.23s/it]{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.03}"
		  "\r  3%|▎         | 121/4000 [10:01<5:00:00,  1.25s/it]\n"
		  "  0%|          | 0/50 [00:00<?, ?it/s]\n",
		  "evaluation\n"
		  "progress 0..121/4000 lines=3 ms=1250 loss=2.5\n" },
		{ "Epoch 1:  12%|█▏        | 120/1000 [01:00<07:20,  2.00it/s, v_num=0, "
		  "train_loss=2.50"
		  "]\n",
		  "progress 1120..1120 epoch=1 at 120/1000 lines=1 ms=500 loss=2.5\n" },
		{ "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | "
		  "global_bat"
		  "ch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing "
		  "in s: "
		  "0.03146\n",
		  "progress 120..120 epoch=0 at 120/149 lines=1 ms=31.46 loss=1.233\n" },
		{ "iter 100: loss 2.3456, time 123.45ms, mfu 30.12%\n"
		  "step 500: train loss 2.1000, val loss 2.2000\n",
		  "evaluation value=500\n"
		  "progress 100..500 lines=2 ms=123.45 loss=2.1\n" },
		{ "step:125/1770 train_time:18000ms step_avg:144.03ms\n",
		  "progress 125..125/1770 lines=1 ms=144.03\n" },
		{ "Epoch: [0][1180/1250]\tTime 0.771 (0.764)\tData 0.004 (0.006)\tLoss 2.9911 "
		  "(4.0210)\n",
		  "progress 1180..1180 epoch=0 at 1180/1250 lines=1 ms=771 loss=2.9911\n" },
		{ "\033[32mEpoch: [0][1180/1250] Time 0.771 (0.764) Loss 2.9911\033[0m\n",
		  "progress 1180..1180 epoch=0 at 1180/1250 lines=1 ms=771 loss=2.9911\n" },
		{ "Epoch: [2]  [ 100/5004]  eta: 1:00:00  lr: 0.1  img/s: 300  loss: 6.9 (6.9)  "
		  "time: 0"
		  ".4012  data: 0.0003  max mem: 1234\n",
		  "progress 10108..10108 epoch=2 at 100/5004 lines=1 ms=401.2 loss=6.9\n" },
		{ "Epoch [1/10], Step [100/600], Loss: 0.5\n",
		  "progress 700..700 epoch=1 at 100/600 lines=1 loss=0.5\n" },
		{ "epoch 001:    100 / 1000 loss=9.876, nll_loss=9.1, wps=12345.6, ups=1.2, "
		  "lr=0.001, t"
		  "rain_wall=80\n",
		  "progress 1100..1100 epoch=1 at 100/1000 lines=1 tokens/s=12345.6 loss=9.876\n" },
		{ "2026-11-29 21:09:53 step 2/20 loss 5.7465 lr 0.0003 time 0.021s\n"
		  "2026-11-29 21:09:53 step 3/20 loss 5.5905 lr 0.0003 time 0.029s\n",
		  "progress 2..3/20 lines=2 ms=29 loss=5.5905 last_ms=1795986593000\n" },
		{ "[2025-04-21T23:31:09.074419] [426] [22b7ca89] [AtorchTrainerV2] [#step] [BEGIN] "
		  "{"
		  "\"global_step\": 177018, \"epoch\": 0}\n"
		  "[2025-04-21T23:53:35.596206] [426] [22b7ca89] [AtorchTrainerV2] [#step] [END] "
		  "{\"glo"
		  "bal_step\": 177019, \"epoch\": 0.7}\n",
		  "progress 177018..177019 lines=2 ms=1.34652e+06 last_ms=1745279615596\n" },
		{ "[rank0]: step 5/9 loss nan time 1.5s\n"
		  "[rank1]: step 4/9 loss 1 time 1.5s\n"
		  "[rank0]: step 3/9 loss 2 time 2.5s\n",
		  "progress rank=0 5..3/9 lines=2 restarts=1 ms=2500 loss=2\n"
		  "progress rank=1 4..4/9 lines=1 ms=1500 loss=1\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void data_work_is_no_progress(void **state)
{
	static const struct row rows[] = {
		{ "Running tokenizer on dataset:   8%|▊   | 200000/2800000 [20:00<4:40:00, 155.00 "
		  "examp"
		  "les/s]\rRunning tokenizer on dataset:   9%|▊   | 279000/2800000 [29:55<4:30:24, "
		  "156."
		  "26 examples/s]\rRunning tokenizer on dataset:   0%|    | 0/2800000 [00:00<?, ? "
		  "examp"
		  "les/s]\n",
		  "data-work seq=279000 value=2800000 x2\n"
		  "data-work seq=0 value=2800000\n" },
		{ "Loading checkpoint shards:  50%|█████     | 1/2 [00:05<00:05,  5.00s/it]\n",
		  "data-work seq=1 value=2\n" },
		{ "Validation DataLoader 0:  30%|███       | 3/10 [00:01<00:03,  2.00it/s]\n",
		  "evaluation\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void saves_and_life(void **state)
{
	static const struct row rows[] = {
		{ "saving checkpoint at iteration    5000 to /ckpt in torch_dist format\n"
		  "  successfully saved checkpoint from iteration    5000 to /ckpt [ t 1/8, p 1/8 "
		  "]\n",
		  "save-begin value=5000\n"
		  "save-end value=5000\n" },
		{ "save-checkpoint ................................: (12222.44, 12223.48)\n",
		  "save-end took_ms=12222\n" },
		{ "Saving model checkpoint to ./out/checkpoint-500\n", "save-begin value=500\n" },
		{ "[rank0]:[titan] 2026-05-18 16:07:39,051 - root - INFO - Saving the checkpoint "
		  "(or st"
		  "aging if async is enabled).\n"
		  "[rank0]:[titan] 2026-05-18 16:07:51,051 - root - INFO - Finished saving the "
		  "checkpoi"
		  "nt (or staging if async is enabled) in 12.05 seconds.\n",
		  "save-begin rank=0 ms=1779120459051\n"
		  "save-end rank=0 ms=1779120471051 took_ms=12050\n" },
		{ "INFO:tune.utils._logging:Saving checkpoint. This may take some time. Retrieving "
		  "full"
		  " model state dict...\n",
		  "save-begin\n" },
		{ "[NeMo I 2025-04-21 20:55:49 nemo_logging:393] Global Checkpoint Save : Rank: 0 "
		  ": Ite"
		  "ration: 10 : Start time: 1745268948.958s : Save duration: 1.016s\n",
		  "save-end value=10 ms=1745268949000 took_ms=1016\n" },
		{ "[2025-04-22T00:41:14.534783] [426] [abb4c809] [AtorchTrainerV2] [#save] [BEGIN] "
		  "{"
		  "\"global_step\": 177215}\n"
		  "[2025-04-22T00:42:46.143943] [426] [abb4c809] [AtorchTrainerV2] [#save] [END] "
		  "{\"glo"
		  "bal_step\": 177215}\n",
		  "save-begin value=177215 ms=1745282474534\n"
		  "save-end value=177215 ms=1745282566143\n" },
		{ "[rank4]:2026-11-29 21:16:02 saving checkpoint at step 6\n"
		  "[rank4]:2026-11-29 21:16:02 checkpoint step 6 done\n",
		  "save-begin rank=4 value=6 ms=1795986962000\n"
		  "save-end rank=4 value=6 ms=1795986962000\n" },
		{ "    will not load any checkpoints and will start from random\n"
		  "  checkpoint_activations .......................... True\n"
		  "--save /path --save-interval 500\n"
		  "[config.py:904:print]   checkpoint_tag_validation_enabled  True\n",
		  "" },
		{ "[rank1]:2026-11-29 21:16:49 training stopped: ValueError('token id 263')\n"
		  "[rank1]:2026-11-29 21:16:49 bye\n",
		  "left rank=1 what=ValueError ms=1795987009000\n"
		  "left rank=1 what=bye ms=1795987009000\n" },
		{ "[rank1]:2026-11-29 21:12:23 epoch 0 done\n",
		  "epoch-end rank=1 value=0 ms=1795986743000\n" },
		{ "[after training is done] datetime: 2023-11-29 08:57:30\n", "done\n" },
		{ "Training completed. Do not forget to share your model on huggingface.co/models "
		  "=)\n",
		  "done\n" },
		{ "[rank3]:[W1129 21:31:50.251 ProcessGroupNCCL.cpp:1250] Warning: WARNING: "
		  "process gro"
		  "up has NOT been destroyed before we destruct ProcessGroupNCCL.\n",
		  "left rank=3 what=exit\n" },
		{ "***** Running Evaluation *****\n", "evaluation\n" },
		{ "validation loss at iteration 1000 | lm loss value: 2.3E+00\n",
		  "evaluation value=1000\n" },
		{ "02/06/2024 09:14:03 - INFO - finetune.args - Process rank: 2, device: cuda:2, "
		  "n_gpu:"
		  " 1\n",
		  "hello rank=2 gpu=2 ms=1707210843000\n" },
		{ "| distributed init (rank 3): env://, gpu 3\n", "hello rank=3\n" },
		{ "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/8\n",
		  "hello rank=3 value=8\n" },
		{ "using world size: 64, data-parallel-size: 1, tensor-model-parallel size: 4\n",
		  "file world=64\n" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

static void what_is_no_log_says_nothing(void **state)
{
	static const struct row rows[] = {
		{ "# A readme\n"
		  "\n"
		  "Run `torchrun train.py` and wait for step 3 of the guide. If you see an error, "
		  "read "
		  "the FAQ.\n",
		  "" },
		{ "{\"loss\": \"mse\", \"steps\": 100, \"save_steps\": 10, \"ddp_timeout\": "
		  "1800}\n",
		  "" },
		{ "def train(step, total):\n"
		  "    \"\"\"Trains.\"\"\"\n"
		  "    for step in range(10):\n"
		  "        print(f\"step {step}/{total} loss {loss}\")\n",
		  "" },
		{ "slurmstepd: error: *** STEP 1809655.0 ON r6i4n3 WAITS FOR A LONG TIME ***\n"
		  "step 2 of the tutorial takes a long time\n"
		  "Step 3/5: learning to load data\n",
		  "" },
		{ "Traceback (most recent call last):\n"
		  "  File \"/opt/bin/torchfrtrace\", line 8, in <module>\n"
		  "    sys.exit(main())\n"
		  "KeyError: (0, 5)\n",
		  "" },
		{ "lr: 0.1\n"
		  "epochs: 3\n"
		  "batch_size: 32\n"
		  "checkpoint: /a/b\n",
		  "" },
	};

	(void)state;
	expect_rows(rows, ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tracebacks_of_ranks_that_print_together),
		cmocka_unit_test(what_exceptions_mean),
		cmocka_unit_test(launchers_summaries),
		cmocka_unit_test(progress_of_frameworks),
		cmocka_unit_test(data_work_is_no_progress),
		cmocka_unit_test(saves_and_life),
		cmocka_unit_test(what_is_no_log_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
