package isolation

// Kernel is what the machine offers, as far as the layers need it. A reason is
// empty where nothing is missing.
type Kernel struct {
	ABI        int    // of Landlock
	NoLandlock string // why ABI is 0
	NoSeccomp  string
	NoMounts   string // why there is no private devpts and /dev/shm
	private    mounts
}

// Probe tries what the policy needs and describes what jobs will get.
func (p Policy) Probe() Report {
	k := ProbeKernel()
	r := p.Describe(k)
	if err := p.tryRules(r.ABI, k.private); err != nil {
		r.Refusing, r.Broken = true, err.Error()
	}
	return r
}

// tryRules makes the rules that all jobs have, and applies them to nothing.
func (p Policy) tryRules(abi int, private mounts) error {
	if abi == 0 {
		return nil
	}
	r, err := p.commonRules(abi, private)
	if err == nil {
		r.close()
	}
	return err
}

// ProbeKernel tries each feature, the mounts on a thread that is thrown away.
func ProbeKernel() Kernel {
	k := Kernel{NoSeccomp: seccompMissing()}
	k.ABI, k.NoLandlock = kernelABI()
	OnThread(func() {
		var err error
		if k.private, err = mountPrivate(); err != nil {
			k.NoMounts = err.Error()
		}
	})
	return k
}
