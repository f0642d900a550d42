package container

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the system calls that runtimes refuse by default to who has none of the
// capabilities SYS_ADMIN, SYS_PTRACE, SYS_MODULE, SYS_TIME and their like.
var refused = []uint32{
	// mounts, namespaces, roots
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// the kernel itself
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_SYSLOG, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_VHANGUP,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
	// keys, clocks, other processes, placement of memory
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETTIMEOFDAY,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_GET_MEMPOLICY, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

const (
	// newNamespaces are the flags of clone(2) that make a namespace.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

	// Where seccomp(2) puts what a filter reads.
	callOffset, archOffset, firstArgumentOffset = 0, 4, 16
)

// refuseCalls puts a filter before the system calls of this thread and what it starts.
func refuseCalls() error {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(with uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with} }
	// unless goes past so many instructions where what was loaded does not fit.
	unless := func(test uint16, k uint32, past uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: past, K: k}
	}
	const no = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

	program := []unix.SockFilter{
		load(archOffset), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch}, answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(callOffset),
		// Its flags are in memory, where no filter sees them: who asks turns to clone.
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
	for _, call := range refused {
		program = append(program, unless(unix.BPF_JEQ, call, 1), answer(no))
	}
	program = append(program,
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(firstArgumentOffset),
		unless(unix.BPF_JSET, newNamespaces, 1), answer(no), answer(unix.SECCOMP_RET_ALLOW),
		unless(unix.BPF_JEQ, unix.SYS_SOCKET, 4), load(firstArgumentOffset),
		unless(unix.BPF_JEQ, unix.AF_VSOCK, 1), answer(no), answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ALLOW))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
