package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/sluice/client/sluicev1"
)

// Outcome says how the work under a lease of slots went. `concurrency` limits with `adapt` learn
// from it.
type Outcome int

const (
	// ByError is the default: OK if there is no error; Overload for a timeout, a broken or refused
	// connection, too many open files, or an HTTP or gRPC status that means overload; otherwise
	// Ignore.
	ByError Outcome = iota
	// OK: the work was too slow only if it took longer than the limit's latency.
	OK
	// Overload: the work was too slow, however long it took.
	Overload
	// Ignore: the work shows nothing about the load, for example because it was canceled.
	Ignore
)

// Work is the work for which a slot is held. Safe for concurrent use.
type Work struct {
	mutex    sync.Mutex
	outcome  Outcome
	duration *durationpb.Duration
}

type workKey struct{}

// WorkOf returns the work that `ctx` belongs to. `ctx` is the context of the function of Limited, of a
// request behind Middleware, or of a call behind an interceptor.
func WorkOf(ctx context.Context) *Work {
	if work, ok := ctx.Value(workKey{}).(*Work); ok {
		return work
	}
	return &Work{} // reports to it have no effect
}

// Report sets how the work went. An error of the work is then ignored.
func (w *Work) Report(outcome Outcome) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.outcome = outcome
}

// ReportError sets how the work went, from its error, as Limited does with the error of its function.
func (w *Work) ReportError(err error) { w.Report(outcomeOf(err)) }

// ReportDuration sets how long the work took. If it is not called, the
// server measures how long the slot was held.
func (w *Work) ReportDuration(duration time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.duration = durationpb.New(duration)
}

// hold is how the work went, as fields of a release or a settlement.
type hold struct {
	outcome  pb.HoldOutcome
	duration *durationpb.Duration
}

var (
	ignored  = hold{outcome: pb.HoldOutcome_HOLD_OUTCOME_IGNORE}
	errPanic = errors.New("the work panics")
)

// ended returns how work with this error went. overloaded: whether this process is overloaded.
func (w *Work) ended(err error, overloaded func() bool) hold {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	outcome := w.outcome
	if outcome == ByError {
		outcome = outcomeOf(err)
		if outcome == OK && overloaded() {
			outcome = Overload
		}
	}
	return hold{pb.HoldOutcome(outcome), w.duration} // the API uses the same numbers
}

// unlessPanics returns `overloaded` as a function that returns false if `overloaded` panics. The first
// panic is logged.
func unlessPanics(overloaded func() bool) func() bool {
	var once sync.Once
	return func() bool {
		defer func() {
			if cause := recover(); cause != nil {
				once.Do(func() { log.Printf("sluice: taken as false: Overloaded panics: %v", cause) })
			}
		}()
		return overloaded()
	}
}

// httpError is the HTTP status of a response, if the status means overload.
type httpError int

func (e httpError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

func outcomeOf(err error) Outcome {
	var network net.Error
	var response httpError
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled):
		return Ignore
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EMFILE),
		errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &response),
		errors.As(err, &network) && network.Timeout():
		return Overload
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unavailable:
		return Overload
	}
	return Ignore
}

// Marks are parts of the CPU and memory, from 0 to 1. A part of 0 is not checked.
type Marks struct {
	CPU, Memory float64
	Cgroup      string // a cgroup's folder; "": this process's cgroup
}

const (
	cpuPeriod = time.Second // over which the CPU is measured
	ticks     = 100         // per second, in /proc
)

// Above returns a function for Options.Overloaded, which returns whether this process's cgroup (v2)
// uses more of its CPU or memory than `marks` says. If the cgroup has no limit, the machine's CPU or
// memory is the limit. Without cgroups, only the use of this process counts. CPU is measured over
// at least a second.
func Above(marks Marks) func() bool {
	load := cgroup{folder: marks.Cgroup}
	if load.folder == "" {
		load.folder = ownCgroup()
	}
	var mutex sync.Mutex
	begin, used, part := time.Now(), load.cpuTime(), 0.0
	return func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		if elapsed := time.Since(begin); elapsed >= cpuPeriod {
			before := used
			begin, used = time.Now(), load.cpuTime()
			part = float64(used-before) / float64(elapsed) / load.cpus()
		}
		return marks.CPU > 0 && part > marks.CPU || marks.Memory > 0 && load.memory() > marks.Memory
	}
}

type cgroup struct{ folder string }

func ownCgroup() string {
	for _, line := range strings.Split(read("/proc/self/cgroup"), "\n") {
		if strings.HasPrefix(line, "0::") {
			return filepath.Join("/sys/fs/cgroup", line[3:])
		}
	}
	return "/sys/fs/cgroup"
}

func (c cgroup) cpuTime() time.Duration {
	if stat := words(filepath.Join(c.folder, "cpu.stat")); len(stat) > 1 { // usage_usec N …
		return time.Duration(number(stat[1])) * time.Microsecond
	}
	_, stat, _ := strings.Cut(read("/proc/self/stat"), ") ") // after the name, which may have spaces
	if fields := strings.Fields(stat); len(fields) > 12 {
		return time.Duration(number(fields[11])+number(fields[12])) * time.Second / ticks
	}
	return 0
}

func (c cgroup) cpus() float64 {
	most := words(filepath.Join(c.folder, "cpu.max")) // quota and period
	if len(most) == 2 && most[0] != "max" {
		return number(most[0]) / number(most[1])
	}
	return float64(runtime.NumCPU())
}

func (c cgroup) memory() float64 {
	limit := words(filepath.Join(c.folder, "memory.max"))
	if len(limit) == 0 || limit[0] == "max" {
		limit = []string{kibibytes("/proc/meminfo", "MemTotal:")}
	}
	used := words(filepath.Join(c.folder, "memory.current"))
	if len(used) == 0 {
		used = []string{kibibytes("/proc/self/status", "VmRSS:")}
	}
	return number(used[0]) / number(limit[0])
}

// kibibytes returns the value of a line such as "VmRSS: 1024 kB", in bytes.
func kibibytes(path, name string) string {
	_, line, _ := strings.Cut(read(path), name)
	if fields := strings.Fields(line); len(fields) > 0 {
		return strconv.FormatFloat(1024*number(fields[0]), 'f', 0, 64)
	}
	return "0"
}

func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

func words(path string) []string { return strings.Fields(read(path)) }

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}
