package runner

import (
	"os"
	"strconv"
	"strings"
)

// oomScoreAdj is added to the score, from 0 to 1000, by which the kernel chooses
// what to kill when memory runs out: enough to be chosen before the server and
// the runners, and less than what a job may want for a child of its own.
const oomScoreAdj = 500

// offerToOOM makes a process, and all that it will start, be killed for memory
// before us. Where that is refused, all are equal. It must run on a thread that
// is not confined: under Landlock the file can not be written.
func offerToOOM(pid int) {
	path := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	b, err := os.ReadFile(path)
	if err != nil {
		return // gone already
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n >= oomScoreAdj {
		return // to be killed even earlier
	}
	_ = os.WriteFile(path, []byte(strconv.Itoa(oomScoreAdj)), 0) // see above
}
