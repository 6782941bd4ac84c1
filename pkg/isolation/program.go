package isolation

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// program is a seccomp program. The kernel runs it once for every call number
// when it is installed, and at every call it could not decide by number alone:
// so it searches its rules by halves.
type program []unix.SockFilter

// rule is what happens to one call: a program that always returns.
type rule struct {
	nr   uint32
	body program
}

// Where a program finds what it looks at, in struct seccomp_data. Both
// architectures are little-endian: the low half of an argument comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

func insn(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
}

func load(offset uint32) unix.SockFilter {
	return insn(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0)
}

func loadArg(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) }

// The jumps skip that many instructions if the comparison is true or not.
func ifEqual(k uint32, yes, no uint8) unix.SockFilter {
	return insn(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, yes, no)
}

func ifAtLeast(k uint32, yes, no uint8) unix.SockFilter {
	return insn(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, k, yes, no)
}

func ifBits(k uint32, yes, no uint8) unix.SockFilter {
	return insn(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, yes, no)
}

func fail(errno unix.Errno) unix.SockFilter {
	return insn(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno), 0, 0)
}

func allow() unix.SockFilter {
	return insn(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
}

// denyBits fails if the nth argument has one of the bits.
func denyBits(n, bits uint32, errno unix.Errno) program {
	return program{loadArg(n), ifBits(bits, 0, 1), fail(errno), allow()}
}

// denyValues fails if the nth argument is one of two values.
func denyValues(n, v1, v2 uint32, errno unix.Errno) program {
	return program{loadArg(n), ifEqual(v1, 1, 0), ifEqual(v2, 0, 1), fail(errno), allow()}
}

// assemble puts the checks of the architecture before the search.
func assemble(rules []rule) program {
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.nr, b.nr) })
	p := program{
		// Programs of another architecture have other numbers.
		load(offsetArch), ifEqual(auditArch, 1, 0), fail(unix.ENOSYS),
		load(offsetNr),
	}
	if x32Bit != 0 {
		p = append(p, ifAtLeast(x32Bit, 0, 1), fail(unix.ENOSYS))
	}
	return append(p, search(rules)...)
}

// search finds the rule of the loaded number; without one the call is allowed.
func search(rules []rule) program {
	if len(rules) > 2 {
		half := len(rules) / 2
		low := search(rules[:half])
		p := append(program{ifAtLeast(rules[half].nr, uint8(len(low)), 0)}, low...)
		return append(p, search(rules[half:])...)
	}
	var p program
	for _, r := range rules {
		p = append(p, ifEqual(r.nr, 0, uint8(len(r.body))))
		p = append(p, r.body...)
	}
	return append(p, allow())
}
