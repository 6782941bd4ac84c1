package isolation

import (
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// What a path can be granted. Rights the kernel does not know are masked when a
// rule is added, and so are rights of directories on a file.
const (
	readFile   = ll.AccessFSReadFile
	readExec   = ll.AccessFSExecute | ll.AccessFSReadFile
	readDir    = ll.AccessFSReadFile | ll.AccessFSReadDir
	readTree   = readExec | ll.AccessFSReadDir
	useDevice  = ll.AccessFSReadFile | ll.AccessFSWriteFile
	useTTY     = useDevice | ll.AccessFSIoctlDev
	useTTYs    = useTTY | ll.AccessFSReadDir
	resolve    = readDir | ll.AccessFSResolveUnix
	fileRights = readExec | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev | ll.AccessFSResolveUnix

	// Device nodes are not among what may be made: a job of root could make one
	// of a disk in its HOME and read everything through it.
	writeTree = readTree | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRefer |
		ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir | ll.AccessFSMakeReg |
		ll.AccessFSMakeSym | ll.AccessFSMakeFifo | ll.AccessFSMakeSock | ll.AccessFSResolveUnix

	// Semaphores and shared memory are files in one directory of all jobs. They
	// can be made and opened by name, but not listed: names are random, so a
	// job finds only its own.
	shareMemory = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSMakeReg | ll.AccessFSRemoveFile
)

// The Landlock ABI a right came with.
const (
	abiRefer       = 2
	abiTruncate    = 3
	abiTCP         = 4
	abiIoctl       = 5
	abiScopes      = 6
	abiPathSockets = 9
)

// newestABI is the newest Landlock ABI that supported knows.
const newestABI = 11

// supported returns all rights of an ABI; 0 has none.
func supported(abi int) landlock.Config {
	presets := [newestABI + 1]*landlock.Config{
		nil, &landlock.V1, &landlock.V2, &landlock.V3, &landlock.V4, &landlock.V5, &landlock.V6,
		&landlock.V7, &landlock.V8, &landlock.V9, &landlock.V10, &landlock.V11,
	}
	abi = min(abi, newestABI)
	if abi <= 0 {
		return landlock.Config{}
	}
	return *presets[abi]
}

// handled returns what the policy restricts at an ABI: every right to files and
// every scope, and TCP only where ports are limited.
func (p Policy) handled(abi int) landlock.Config {
	c := supported(abi)
	var net landlock.AccessNetSet
	if p.ConnectPorts != nil {
		net |= ll.AccessNetConnectTCP
	}
	if p.BindPorts != nil {
		net |= ll.AccessNetBindTCP
	}
	c.HandledAccessNet &= net
	return c
}

// usableABI is the ABI that is used on a kernel with the given one.
func (p Policy) usableABI(kernel int) int {
	if p.MaxABI > 0 {
		kernel = min(kernel, p.MaxABI)
	}
	return min(kernel, newestABI)
}
