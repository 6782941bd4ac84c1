package manager

import (
	"os"

	"golang.org/x/sys/unix"

	"shellctl/pkg/config"
	"shellctl/pkg/job"
)

const descriptorDir = "/proc/self/fd"

// spareDescriptors refuses a job while few descriptors are free: a server that
// has none left can neither accept a client nor answer one, and so nobody could
// end a job to free some. (The runtime raises the soft limit to the hard one,
// for this process alone.)
func spareDescriptors() error {
	var l unix.Rlimit
	used, err := usedDescriptors()
	if err != nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return nil // it can not be told; what needs one will fail by itself
	}
	if spare := min(config.FreeDescriptors, l.Cur/4); used+spare <= l.Cur {
		return nil
	}
	return job.Errorf(job.CodeTooManyJobs, "%d of the server's %d descriptors are in use, and the rest is for clients", used, l.Cur)
}

// usedDescriptors counts the open descriptors of this process.
func usedDescriptors() (uint64, error) {
	st, err := os.Stat(descriptorDir)
	if err != nil {
		return 0, err
	}
	if st.Size() > 0 { // since Linux 6.2
		return uint64(st.Size()), nil
	}
	entries, err := os.ReadDir(descriptorDir)
	return uint64(len(entries)), err
}
