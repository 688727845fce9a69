package docker

import (
	"encoding/json"
	"runtime"
	"strings"
)

// allowed are the system calls that building and testing programs make. Whatever is not here fails
// with EPERM: io_uring, keys, other processes' memory, mounts, namespaces, modules, tracing, page
// faults in user space, the machine's clock and name. A call that is newer than this list fails
// like one the kernel does not have.
const allowed = `
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod
fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr
fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat
get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid
getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup
io_submit ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise
map_shadow_stack mbind membarrier memfd_create mincore mkdir mkdirat mlock mlock2 mlockall mmap mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv
msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2
prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg
recvmsg remap_file_pages removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg
sendto set_mempolicy set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups
setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid
setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 splice stat statfs statx
symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill
truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid waitpid write
writev`

// Numbers of Linux, which this file is about wherever it is compiled.
const (
	namespaceFlags = 0x7e020080 // CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP, NEWTIME
	enosys         = 38
	afUnix         = 1
	afInet         = 2
	afInet6        = 10
	injectInput    = 0x5412 // TIOCSTI: types into a terminal
	consoleSelect  = 0x541c // TIOCLINUX: pastes into a console
	low32          = 0xffffffff
)

type rule struct {
	Names  []string   `json:"names"`
	Action string     `json:"action"`
	Errno  *uint      `json:"errnoRet,omitempty"`
	Args   []argument `json:"args,omitempty"`
}

type argument struct {
	Index uint   `json:"index"`
	Value uint64 `json:"value"`
	Two   uint64 `json:"valueTwo,omitempty"`
	Op    string `json:"op"`
}

// Profile is the engine's system call profile of every container, as JSON: default deny. Sockets
// are unix and internet ones only; new processes may not bring namespaces; clone3, whose flags
// cannot be looked at, does not exist, and libraries fall back to clone. Programs of another
// architecture are killed.
func Profile() []byte {
	const allow, refuse = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
	absent := uint(enosys)
	rules := []rule{
		{Names: strings.Fields(allowed), Action: allow},
		{Names: []string{"clone"}, Action: allow, Args: []argument{{0, namespaceFlags, 0, "SCMP_CMP_MASKED_EQ"}}},
		{Names: []string{"clone3"}, Action: refuse, Errno: &absent},
		{Names: []string{"socketpair"}, Action: allow, Args: []argument{equal(0, afUnix)}},
	}
	rules = append(rules, ioctlRules(allow)...)
	for _, family := range []uint64{afUnix, afInet, afInet6} {
		rules = append(rules, rule{Names: []string{"socket"}, Action: allow, Args: []argument{equal(0, family)}})
	}
	// Personalities that only say "Linux", with or without random addresses, and the question.
	for _, p := range []uint64{0, 0x40000, 0x20000, 0x8, 0x20008, 0xffffffff} {
		rules = append(rules, rule{Names: []string{"personality"}, Action: allow, Args: []argument{equal(0, p)}})
	}
	out, err := json.Marshal(map[string]any{
		"defaultAction": refuse, "architectures": []string{architecture()}, "syscalls": rules,
	})
	if err != nil {
		panic("docker: a profile of literals cannot be written: " + err.Error())
	}
	return out
}

func equal(index uint, value uint64) argument { return argument{index, value, 0, "SCMP_CMP_EQ"} }

// ioctlRules let every request through but TIOCSTI and TIOCLINUX. The kernel looks at the low 32 bits
// of a request only, and of the engine's rules for one argument any may match, so "is neither" is
// spelled out: some bit that the two share is another one, or the bits they differ in are neither's.
func ioctlRules(allow string) []rule {
	var rules []rule
	add := func(mask, value uint64) {
		rules = append(rules, rule{Names: []string{"ioctl"}, Action: allow, Args: []argument{{1, mask, value, "SCMP_CMP_MASKED_EQ"}}})
	}
	const differ = uint64(injectInput ^ consoleSelect)
	for i := range 32 {
		if bit := uint64(1) << i; bit&differ == 0 {
			add(bit, ^uint64(injectInput)&bit)
		}
	}
	for sub := differ; ; sub = (sub - 1) & differ { // every choice of the bits they differ in
		if v := injectInput&^differ | sub; v != injectInput && v != consoleSelect {
			add(low32, v)
		}
		if sub == 0 {
			return rules
		}
	}
}

func architecture() string {
	if runtime.GOARCH == "arm64" {
		return "SCMP_ARCH_AARCH64"
	}
	return "SCMP_ARCH_X86_64"
}
