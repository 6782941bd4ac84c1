package applets_test

import (
	"strings"
	"testing"

	"shellctl/pkg/client"
)

// tool is a use of common programs that must work inside a job. It prints "fine"
// at its end; what a shell prints before is for the reader of a failure.
type tool struct{ name, script string }

func tools() []tool {
	return []tool{
		{"git", `git init -q -b main origin && cd origin && git config user.name a && git config user.email a@b
			echo 1 > f && git add f && git commit -qm one && cd .. && git clone -q origin clone && cd clone
			git config user.name a && git config user.email a@b
			git checkout -qb topic && echo 2 > g && git add g && git commit -qm two
			git checkout -q main && echo 3 > h && git add h && git commit -qm three && git checkout -q topic
			git rebase -q main && git worktree add -q ../tree -b side && cd ../tree && touch w && git add w && git commit -qm w
			cd ../clone && git gc -q && git stash list && git log --oneline | wc -l`},
		{"rename and link", `away=$HOME/away-$$; export away; mkdir -p a b $away && echo x > a/f && echo y > a/k && mkdir a/d && touch a/d/e
			python3 -c "import os; os.rename('a/f', 'b/f'); os.link('a/k', 'b/k'); os.rename('a/d', os.environ['away']+'/d')"
			mv b/f $away/f && ln b/k $away/k && test $(stat -c %h a/k) = 3 && ls $away/d/e`},
		{"multiprocessing", `cat > mp.py <<'P'
import multiprocessing as m
from multiprocessing import shared_memory
def f(x): return x * x
if __name__ == "__main__":
    for way in "fork", "spawn", "forkserver":
        c = m.get_context(way)
        with c.Lock(), c.Pool(2) as p: assert p.map(f, range(9))[8] == 64
        q = c.Queue(); q.put(1); assert q.get() == 1
    s = shared_memory.SharedMemory(create=True, size=10); s.buf[0] = 7
    t = shared_memory.SharedMemory(s.name); assert t.buf[0] == 7; t.close(); s.close(); s.unlink()
P
			python3 mp.py`},
		{"npm", `mkdir -p lib app && cd lib && printf '{"name":"lib","version":"1.0.0","main":"i.js","scripts":{"postinstall":"echo x > done"}}' > package.json
			echo 'module.exports = 41' > i.js && npm pack --silent && cd ../app && echo '{"name":"app","version":"1.0.0"}' > package.json
			npm install --offline --no-audit --no-fund ../lib/lib-1.0.0.tgz && node -e 'if (require("lib") + 1 != 42) process.exit(1)'
			node -e 'const {Worker} = require("worker_threads"); new Worker("1", {eval: true}); require("fs").cpSync("node_modules", "copy", {recursive: true})
			require("child_process").execFileSync("sh", ["-c", "exit 0"])'`},
		{"sort that spills", `seq 1 300000 | sort -R --random-source=/dev/zero > big; sort -n -S 1M --parallel=2 big | tail -1
			env -i /bin/sh -c "sort -S 1M big > sorted" && test $(wc -l < sorted) = 300000`},
		{"here-documents", `{ printf 'cat <<E | wc -c\n'; head -c 70000 /dev/zero | tr '\0' x; printf '\nE\n'; } > here.sh
			test $(sh here.sh) = 70001 && test $(bash here.sh) = 70001 && test $(env -i /bin/sh here.sh) = 70001
			test $(env -i /bin/bash here.sh) = 70001 && test "$(bash -c 'cat <<< word')" = word`},
		{"process substitution", `test "$(bash -c 'paste <(echo a) <(echo b)')" = "a	b" && bash -c 'echo t > >(cat > psub); wait' && bash -c 'diff <(seq 3) <(seq 3)'`},
		{"sqlite", `python3 -c "
import sqlite3
for mode in 'wal', 'delete', 'truncate', 'memory':
    d = sqlite3.connect(mode + '.db'); d.execute('pragma journal_mode=' + mode)
    d.execute('create table t(x)'); d.executemany('insert into t values(?)', ((i,) for i in range(5000)))
    d.execute('create index i on t(x)'); d.commit(); d.execute('vacuum'); d.close()
"`},
		{"tar", `mkdir -p src/d && echo x > src/d/f && ln -s f src/d/l && ln src/d/f src/h && mkfifo src/p && tar czf t.tgz src && mkdir out && tar xzf t.tgz -C out && diff src/d/f out/src/d/f && test -p out/src/p`},
		{"ssh-keygen", `ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -y -f key && ssh-keygen -lf key.pub`},
		{"gcc", `printf '#include <stdio.h>\nint main(){puts("hi");}' > m.c && gcc -O1 -pipe -o m m.c && test $(./m) = hi && gcc -g -c m.c && ar rc m.a m.o`},
		{"devices", `: > /dev/null; head -c1 /dev/urandom | wc -c; head -c1 /dev/zero | wc -c; ls /dev/fd; (echo x > /dev/full) 2>/dev/null || true
			python3 -c "import os, random; os.urandom(4); random.SystemRandom().random()"`},
		{"standard streams by name", `echo out > /dev/stdout && echo err > /dev/stderr && echo t | tee /dev/stderr /dev/stdout && cat /dev/stdin < /etc/passwd > /dev/null && echo fd > /dev/fd/1 && echo p > /proc/self/fd/2`},
		{"name resolution", `cat /etc/hosts /etc/nsswitch.conf > /dev/null && cat /etc/resolv.conf > /dev/null && getent hosts localhost && python3 -c "import socket; socket.getaddrinfo('localhost', 80)"`},
		{"what machine it is", `nproc; cat /proc/cpuinfo /proc/meminfo > /dev/null; ls /sys/fs/cgroup > /dev/null; cat /sys/devices/system/cpu/online; ps -ef > /dev/null; uptime
			python3 -c "import os; os.cpu_count(); os.sched_getaffinity(0)"; node -e 'require("os").cpus()'`},
		{"user and time", `id; date; TZ=Europe/Berlin date; locale > /dev/null; umask 022; ulimit -n; sleep 0`},
		{"files in place", `echo one > e && sed -i s/one/two/ e && grep -q two e && perl -pi -e 's/two/three/' e && grep -q three e && cp -a e e2 && truncate -s 10 e2 && dd if=/dev/zero of=e3 bs=1k count=1 2>/dev/null && mktemp && find . -name e3 -delete && rm -r e e2`},
		{"sockets", `python3 -c "
import os, socket, threading
s = socket.socket(socket.AF_UNIX); s.bind('s.sock'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('s.sock'); s.accept()[0].send(b'x'); assert c.recv(1) == b'x'
a = socket.socket(socket.AF_UNIX); a.bind('\0own' + str(os.getpid())); a.listen()
b = socket.socket(socket.AF_UNIX); b.connect(a.getsockname())
t = socket.create_server(('127.0.0.1', 0)); socket.create_connection(t.getsockname())
"`},
		{"signals inside", `sh -c 'kill -TERM $$' || test $? = 143; (exec python3 -c "import time; time.sleep(100)") & kill $!; wait $! || test $? = 143; timeout 0.1 cat /dev/zero > /dev/null || test $? = 124`},
		{"debugging one's own", `python3 -c "
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True); pid = os.fork()
if pid == 0: libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP); os._exit(3)
os.waitpid(pid, 0); assert libc.ptrace(7, pid, 0, 0) == 0; assert os.waitpid(pid, 0)[1] >> 8 == 3"`},
	}
}

// terminalTools need a terminal of the job's own.
func terminalTools() []tool {
	return []tool{
		{"raw mode", `stty raw -echo < /dev/tty && stty -a < /dev/tty | grep -q -e -icanon && stty sane < /dev/tty
			python3 -c "import tty, termios; a = termios.tcgetattr(0); tty.setraw(0); termios.tcsetattr(0, termios.TCSANOW, a)"`},
		{"size", `stty size; tput cols; python3 -c "import os; assert os.get_terminal_size().columns == 200"`},
		{"tty by name", `echo x > $(tty) && test "$(tty)" = "$(readlink /proc/self/fd/0)" && test -w /dev/tty`},
	}
}

// ptyTools open terminals.
func ptyTools() []tool {
	return []tool{
		{"script", `script -qec 'test -t 1 && echo in; stty raw; stty sane' /dev/null < /dev/null | grep -q in`},
		{"openpty", `python3 -c "
import os, pty
m, s = pty.openpty(); os.write(s, b'x'); assert os.read(m, 1) == b'x'; os.ttyname(s)
assert pty.spawn(['sh', '-c', 'tty && exit 0'], lambda fd: os.read(fd, 1024)) == 0" < /dev/null`},
	}
}

// use runs each tool in a directory of its own and checks that it works.
func use(t *testing.T, s *testServer, mode string, list []tool) {
	t.Helper()
	for _, tool := range list {
		script := "set -e\nd=$(mktemp -d); cd $d; export TMPDIR=$d\n" + tool.script + "\necho; echo fine\n"
		res := s.runWith(client.RunRequest{Script: script, Mode: mode, Env: map[string]string{"PATH": systemPath}})
		if res.ExitCode == nil || *res.ExitCode != 0 || !strings.Contains(res.Output, "fine\n") {
			t.Errorf("%s, %s: %+v\n%s", tool.name, mode, res.ExitCode, tellFailure(s, res, mode))
		}
	}
}

// tellFailure is the output of a job and what its shell wrote beside it.
func tellFailure(s *testServer, res client.Result, mode string) string {
	if mode == "pty" {
		return res.Output
	}
	_, stderr := s.call("GET", "/v1/jobs/"+res.JobID+"/log/raw?stream=stderr", "")
	return res.Output + "\n" + stderr
}

// TestTools runs what agents use, in both modes, as a plain user and as root.
func TestTools(t *testing.T) {
	needRoot(t)
	needTools(t, "git", "python3", "node", "npm", "gcc", "ssh-keygen", "script")
	for name, uid := range map[string]uint32{"user": plainUser, "root": 0} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, serverOptions{uid: uid})
			use(t, s, "stdio", tools())
			use(t, s, "pty", append(tools(), terminalTools()...))
		})
	}
}

// TestToolsWithTerminals needs terminals: the policy "all", or a devpts that is
// the job's alone.
func TestToolsWithTerminals(t *testing.T) {
	needRoot(t)
	needTools(t, "python3", "script")
	for _, opt := range []serverOptions{
		{uid: plainUser, env: []string{"SHELLCTL_LANDLOCK_PTYS=all"}},
		{uid: 0},
		{uid: plainUser, env: []string{isolationOff}},
	} {
		s := startServer(t, opt)
		for _, mode := range []string{"stdio", "pty"} {
			use(t, s, mode, ptyTools())
		}
	}
}
