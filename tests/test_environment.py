"""What each rank sees: value by value, and exactly what `dure env` said beforehand."""
import json
import os

import harness

# Keeps the environment that the process was started with, and what descriptors it got.
DUMP = """
import json, os, sys
pairs = (entry.split('=', 1) for entry in open('/proc/self/environ').read().split('\\0') if entry)
seen = {'env': dict(pairs), 'fds': sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1]}
name = os.environ['DURE_TASK'] + '.' + os.environ.get('DURE_LOCAL_RANK', '-')
os.makedirs('seen', exist_ok=True)
with open('seen/' + name, 'w') as file: json.dump(seen, file)
"""
COMMAND = "program: {command: [/usr/bin/python3, program.py]}\nrestarts: 0\n"
# Shells add these of their own accord.
OF_A_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


class Environment(harness.Case):
    def promised(self, job):
        """Per task and local rank: what dure env prints for it."""
        blocks = {}
        for line in self.dure("env", job, code=0).out.splitlines():
            if line.startswith("# "):
                block = blocks.setdefault(line, {})
            else:
                name, value = line.split("=", 1)
                block[name] = value
        return {(env["DURE_TASK"], env.get("DURE_LOCAL_RANK", "-")): env for env in blocks.values()}

    def check(self, text, script=DUMP):
        """Runs the job; what every task saw is what was promised. Returns it by rank."""
        job = self.job(text, script)
        promised = self.promised(job)
        self.dure("run", job, code=0, timeout=60)
        ranks = {}
        for (task, local_rank), env in promised.items():
            path = self.dir / "seen" / f"{task}.{local_rank}"
            if not path.exists() and local_rank == "-":
                continue  # a task without a process of its own
            seen = json.loads(path.read_text())
            got = {k: v for k, v in seen["env"].items() if k not in OF_A_SHELL}
            self.assertEqual(got, {**self.env, **env}, task)
            if local_rank != "-":
                ranks[int(env["DURE_RANK"])] = env
                only = self.dure("env", job, "--rank", env["DURE_RANK"], code=0).out
                again = dict(line.split("=", 1) for line in only.splitlines())
                self.assertEqual(again.keys(), env.keys())
        return ranks

    def assert_values(self, env, **expected):
        self.assertEqual({name: env.get(name) for name in expected},
                         {name: str(value) for name, value in expected.items()})

    def test_plain(self):
        ranks = self.check("name: plain\nworkers: 2\nprocesses: 2\nenv: {COLOUR: 'blue = 1'}\n"
                           "checkpoint: saved\noutput: out/model\n" + COMMAND)
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        self.assert_values(ranks[3], DURE_JOB="plain", DURE_RUN="plain.1", DURE_STRATEGY="plain", DURE_GENERATION=1,
                           DURE_TASK="worker-1", DURE_ROLE="worker", DURE_INDEX=1, DURE_RANK=3,
                           DURE_WORLD_SIZE=4, DURE_LOCAL_RANK=1, DURE_LOCAL_WORLD_SIZE=2,
                           COLOUR="blue = 1", DURE_CHECKPOINT=str(self.dir / "saved"),
                           DURE_OUTPUT=str(self.dir / "out/model"), DURE_MASTER_ADDR="127.0.0.1")
        self.assertEqual(len({env["DURE_METRICS"] for env in ranks.values()}), 4)

    def test_torch(self):
        ranks = self.check("name: torch\nstrategy: torch\nworkers: 2\nprocesses: 2\nport: 29417\n"
                           "restarts: 5\n" + COMMAND.replace("restarts: 0\n", ""))
        for rank in range(4):
            self.assert_values(
                ranks[rank], MASTER_ADDR="127.0.0.1", MASTER_PORT=29417, RANK=rank, WORLD_SIZE=4,
                LOCAL_RANK=rank % 2, LOCAL_WORLD_SIZE=2, GROUP_RANK=rank // 2, GROUP_WORLD_SIZE=2,
                ROLE_RANK=rank, ROLE_WORLD_SIZE=4, ROLE_NAME="default",
                TORCHELASTIC_RESTART_COUNT=0, TORCHELASTIC_MAX_RESTARTS=5,
                TORCHELASTIC_RUN_ID="torch", PYTHONUNBUFFERED=1, OMP_NUM_THREADS=1,
                PET_NNODES=2, PET_NPROC_PER_NODE=2, PET_NODE_RANK=rank // 2,
                PET_MASTER_ADDR="127.0.0.1", PET_MASTER_PORT=29417)

    def test_tensorflow_workers(self):
        ranks = self.check("name: tf\nstrategy: tensorflow\nworkers: 3\nport: 29427\n" + COMMAND)
        for rank in range(3):
            self.assertEqual(json.loads(ranks[rank]["TF_CONFIG"]), {
                "cluster": {"worker": [f"127.0.0.1:{29427 + i}" for i in range(3)]},
                "task": {"type": "worker", "index": rank}, "environment": "cloud"})

    def test_tensorflow_parameter_servers(self):
        # Servers and the evaluator go on until they are stopped, when the others have done.
        script = DUMP + ("import time\nwhile os.environ['DURE_ROLE'] in ('ps', 'evaluator'): "
                         "time.sleep(0.1)\nwhile len(os.listdir('seen')) < 6: time.sleep(0.05)\n")
        ranks = self.check("name: tf\nstrategy: tensorflow\nworkers: 2\nport: 29437\n"
                           "roles: {chief: 1, ps: 2, evaluator: 1}\n" + COMMAND, script)
        cluster = {"chief": ["127.0.0.1:29437"],
                   "worker": ["127.0.0.1:29438", "127.0.0.1:29439"],
                   "ps": ["127.0.0.1:29440", "127.0.0.1:29441"]}
        tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1), ("evaluator", 0)]
        for rank, (role, index) in enumerate(tasks):
            self.assertEqual(json.loads(ranks[rank]["TF_CONFIG"]), {
                "cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"})
            self.assert_values(ranks[rank], DURE_TASK=f"{role}-{index}", DURE_ROLE=role)

    def test_mpi(self):
        # The launcher asks each worker to keep its environment too, as mpirun would.
        for name, command in (("launcher", "/usr/bin/python3 program.py && for task in worker-0 "
                               "worker-1; do $OMPI_MCA_plm_rsh_agent $task /usr/bin/python3 "
                               "program.py || exit 1; done"),):
            ranks = self.check(f"name: mpi\nstrategy: mpi\nworkers: 2\nprocesses: 3\nrestarts: 0\n"
                               f"program: {{command: [sh, -c, '{command}']}}\n")
        self.assertEqual(sorted(os.listdir(self.dir / "seen")),
                         ["launcher-0.0", "worker-0.-", "worker-1.-"])
        directory = self.run_dir("mpi") / "tasks/launcher-0"
        self.assert_values(ranks[0], DURE_ROLE="launcher", OMPI_MCA_orte_keep_fqdn_hostnames="true",
                           OMPI_MCA_plm_rsh_agent=f"{harness.AGENT} rsh",
                           OMPI_MCA_orte_default_hostfile=directory / "hostfile",
                           PRTE_MCA_plm_ssh_agent=f"{harness.AGENT} rsh",
                           NVIDIA_VISIBLE_DEVICES="")
        if os.geteuid() == 0:
            self.assert_values(ranks[0], OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
        self.assertEqual((directory / "hostfile").read_text(), "worker-0 slots=3\nworker-1 slots=3\n")

    def test_horovod_over_mpi(self):
        ranks = self.check("name: hvd\nstrategy: horovod\nhorovod: {controller: mpi}\nworkers: 2\n"
                           "restarts: 0\nprogram: {command: [sh, -c, '/usr/bin/python3 program.py']}\n")
        self.assert_values(ranks[0], HOROVOD_CONTROLLER="mpi", HOROVOD_CPU_OPERATIONS="mpi",
                           DURE_ROLE="launcher", OMPI_MCA_plm_rsh_agent=f"{harness.AGENT} rsh")

    def test_horovod_over_gloo(self):
        script = DUMP + """
import http.client, time
env = os.environ
def ask(method, path, body=None):
    server = http.client.HTTPConnection(env['HOROVOD_GLOO_RENDEZVOUS_ADDR'],
                                        int(env['HOROVOD_GLOO_RENDEZVOUS_PORT']), timeout=10)
    server.request(method, path, body)
    reply = server.getresponse()
    return reply.status, reply.read()
def ask_until(status, path):
    deadline = time.monotonic() + 20
    while ask('GET', path)[0] != status:
        assert time.monotonic() < deadline, path
        time.sleep(0.02)
    return ask('GET', path)[1]
rank, size = env['HOROVOD_RANK'], int(env['HOROVOD_SIZE'])
own = ask('GET', f"/rank_and_size/{env['HOROVOD_HOSTNAME']}:{env['HOROVOD_LOCAL_RANK']}")
names = ('RANK', 'SIZE', 'LOCAL_RANK', 'LOCAL_SIZE', 'CROSS_RANK', 'CROSS_SIZE')
assert own == (200, ','.join(env['HOROVOD_' + name] for name in names).encode()), own
assert ask('GET', '/global/nothing')[0] == 404
value = bytes(range(256)) + rank.encode()
assert ask('PUT', '/global/' + rank, value)[0] == 200
for other in range(size):
    assert ask_until(200, f'/global/{other}') == bytes(range(256)) + str(other).encode()
assert ask('PUT', f'/done/{rank}', b'1')[0] == 200
for other in range(size): ask_until(200, f'/done/{other}')
assert ask('DELETE', '/global/' + rank)[0] == 200
ask_until(404, '/global/0')
assert ask('POST', '/global/1', b'x')[0] == 405
"""
        ranks = self.check("name: hvd\nstrategy: horovod\nworkers: 2\nprocesses: 2\nport: 29447\n"
                           + COMMAND, script)
        for rank in range(4):
            self.assert_values(
                ranks[rank], HOROVOD_RANK=rank, HOROVOD_SIZE=4, HOROVOD_LOCAL_RANK=rank % 2,
                HOROVOD_LOCAL_SIZE=2, HOROVOD_CROSS_RANK=rank // 2, HOROVOD_CROSS_SIZE=2,
                HOROVOD_HOSTNAME=f"worker-{rank // 2}", HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
                HOROVOD_GLOO_IFACE="lo", HOROVOD_CONTROLLER="gloo", HOROVOD_CPU_OPERATIONS="gloo")
            self.assertNotIn("HOROVOD_ELASTIC", ranks[rank])
        elastic = self.job("name: hvd\nstrategy: horovod\nworkers: {min: 1, max: 2}\n" + COMMAND, DUMP)
        self.assertIn("HOROVOD_ELASTIC=1\n", self.dure("env", elastic, "--rank", "1", code=0).out)

    def test_a_program_gets_three_descriptors_and_no_secret(self):
        self.check("name: bare\nworkers: 2\n" + COMMAND)
        secret = (self.run_dir("bare") / "secret").read_text()
        for rank in range(2):
            text = (self.dir / "seen" / f"worker-{rank}.0").read_text()
            self.assertNotIn(secret, text)
            self.assertNotIn("DURE_AGENT_", text)
            self.assertEqual(json.loads(text)["fds"], [0, 1, 2])

    def test_two_people_who_run_jobs_of_one_name_at_once_have_ports_of_their_own(self):
        # Nobody listens there yet: only what is reserved tells the second run that the first one's ports are taken.
        job = self.job("name: same\nworkers: 2\nstrategy: torch\nprogram: {command: [sh, -c, "
                       "'echo port $MASTER_PORT; while [ ! -e over ]; do sleep 0.05; done']}\n")
        ports = []
        for person in ("one", "other"):
            running = self.start("run", job, env={"DURE_STATE_DIR": str(self.dir / person)})
            harness.wait_until(lambda: running.out.count("port") == 2, 30, "both ranks know their port")
            ports.append(set(running.out.split()) & set(map(str, range(20000, 32000))))
        self.assertEqual([len(each) for each in ports], [1, 1], ports)
        self.assertNotEqual(*ports)
        self.write("over", "")
        for running in self.started:
            self.assertEqual(running.wait(30).code, 0)

    def test_the_generation_is_told(self):
        script = DUMP + "import sys\nsys.exit(os.environ['DURE_GENERATION'] != '2')\n"
        self.dure("run", self.job("name: again\nstrategy: torch\nrestarts: {limit: 1, backoff: 1ms}\n"
                                  "program: {command: [/usr/bin/python3, program.py]}\n", script), code=0)
        seen = json.loads((self.dir / "seen/worker-0.0").read_text())["env"]
        self.assert_values(seen, DURE_GENERATION=2, TORCHELASTIC_RESTART_COUNT=1)


harness.main()
