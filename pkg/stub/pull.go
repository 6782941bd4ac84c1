package stub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// PulledFile is a configuration file that was pulled.
type PulledFile struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// PullFiles stores the named configuration files, or all, in dir.
func (c *Client) PullFiles(ctx context.Context, names []string, dir string) ([]PulledFile, error) {
	return pullAll(ctx, c, File, names, dir, c.pullFile)
}

func (c *Client) pullFile(ctx context.Context, root *os.Root, name, dir string) (PulledFile, error) {
	file, err := newScratch(root)
	if err != nil {
		return PulledFile{}, fmt.Errorf("config file %q: write file: %w", name, err)
	}
	defer file.discard()
	if err := c.fetchConfig(ctx, File, name, file); err != nil {
		return PulledFile{}, err
	}
	if err := file.replace(name); err != nil {
		return PulledFile{}, fmt.Errorf("config file %q: write file: %w", name, err)
	}
	return PulledFile{Name: name, Path: filepath.Join(dir, name)}, nil
}

// pullAll pulls each name with one, and returns the results in the order of the
// names. No names means all of the manifest. Each name is tried, whatever
// becomes of the others; the errors are joined in order.
func pullAll[T any](
	ctx context.Context, c *Client, kind Kind, names []string, dir string,
	one func(ctx context.Context, root *os.Root, name, dir string) (T, error),
) ([]T, error) {
	if len(names) == 0 {
		m, err := c.readManifest(ctx)
		if err != nil {
			return nil, err
		}
		names = m.names(kind)
	}
	root, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("create %s directory: %w", kind, err)
	}
	defer root.Close()
	distinct, place := unique(names)
	results, errs := make([]T, len(distinct)), make([]error, len(distinct))
	inParallel(len(distinct), func(i int) {
		if errs[i] = checkPull(kind, distinct[i]); errs[i] == nil {
			results[i], errs[i] = one(ctx, root, distinct[i], dir)
		}
	})
	if ctx.Err() != nil {
		return nil, cause(ctx, ctx.Err())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	ordered := make([]T, 0, len(names))
	for _, name := range names {
		ordered = append(ordered, results[place[name]])
	}
	return ordered, nil
}

// checkPull refuses a name that could leave the directory.
func checkPull(kind Kind, name string) error {
	suffix := ""
	if kind == Skill {
		suffix = ".zip"
	}
	if err := checkName(name, suffix); err != nil {
		return fmt.Errorf("pull config %s: %w", kind, err)
	}
	return nil
}

// unique returns the distinct names in order, and the place of each among them.
func unique(names []string) (distinct []string, place map[string]int) {
	place = make(map[string]int, len(names))
	for _, name := range names {
		if _, ok := place[name]; !ok {
			place[name] = len(distinct)
			distinct = append(distinct, name)
		}
	}
	return distinct, place
}

// inParallel calls f for each number below n, maxParallel at a time.
func inParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, maxParallel) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// fetchConfig writes one thing of the configuration to w.
func (c *Client) fetchConfig(ctx context.Context, kind Kind, name string, w io.Writer) error {
	g, err := c.requestConfig(ctx, kind, name)
	if olderServer(err, http.StatusUnprocessableEntity, http.StatusNotFound) {
		older := c.fetchOlder(ctx, kind, name, w)
		if older == nil {
			return nil
		}
		if !noSuchRoute(older) {
			return fmt.Errorf("download config %s %q: %w", kind, name, older)
		}
		// Not an older server: its first refusal is the true one.
	}
	if err != nil {
		return fmt.Errorf("request config %s %q download URL: %w", kind, name, err)
	}
	if err := c.fetch(ctx, g.URL, g.size(), w); err != nil {
		return fmt.Errorf("download config %s %q: %w", kind, name, err)
	}
	return nil
}

func (c *Client) requestConfig(ctx context.Context, kind Kind, name string) (grant, error) {
	g, err := c.requestGrant(ctx, "config download request", map[string]any{
		"config":       map[string]any{"kind": kind, "name": name},
		"for_frontend": false,
	})
	if err == nil && g.URL == "" {
		err = errors.New("config download response is missing download_url")
	}
	return g, err
}

// fetchOlder uses the route of servers before 1.17, which sends the bytes itself.
func (c *Client) fetchOlder(ctx context.Context, kind Kind, name string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.download)
	defer cancel()
	resp, err := c.send(ctx, c.control, request{
		op:     fmt.Sprintf("config %s pull", kind),
		method: http.MethodGet,
		path:   fmt.Sprintf("/config/%ss/%s/pull", kind, url.PathEscape(name)),
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.receive(ctx, resp.Body, sizeUnknown, w)
}
