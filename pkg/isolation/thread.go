package isolation

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs fn on an OS thread of its own, which dies with it, and returns
// when fn has. What fn does to its thread therefore stays with the processes it
// has started.
//
// The main thread is never used: it outlives its goroutine, and it stands for
// the whole process where the kernel checks who may signal or read it.
func OnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if onMainThread() {
			OnThread(fn) // this goroutine holds the main thread meanwhile
			runtime.UnlockOSThread()
			return
		}
		fn() // never unlocked: the runtime ends the thread
	}()
	<-done
}

func onMainThread() bool { return unix.Gettid() == unix.Getpid() }
