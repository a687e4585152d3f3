package client

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/sluice/client/sluicev1"
)

const (
	callTimeout = 5 * time.Second        // of a call, including its wait for a connection
	firstPause  = 100 * time.Millisecond // between attempts; doubled up to lastPause
	lastPause   = time.Second
)

var errNotStored = errors.New("the store does not answer")

// leases holds the leases of a client: it renews them while they are open, and releases or settles
// them in the background.
type leases struct {
	stub           pb.RateLimiterClient
	settleFor      time.Duration
	maxSettlements int
	pending        sync.WaitGroup // releases and settlements
	mutex          sync.Mutex
	settling       int // guarded by mutex
	lost           int // guarded by mutex
	closed         chan struct{}
}

// renew renews the lease whenever a third of its ttl has passed, until the returned function is
// called. Call that function only once.
func (l *leases) renew(lease *pb.Lease) func() {
	period := lease.GetTtl().AsDuration()/3 + time.Millisecond
	ended := make(chan struct{})
	go func() {
		ticks := time.NewTicker(period)
		defer ticks.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			err := attempt(period, func(ctx context.Context) error {
				_, err := l.stub.RenewLease(ctx, &pb.RenewLeaseRequest{LeaseId: lease.GetId()})
				return err
			})
			if status.Code(err) == codes.NotFound {
				return // the lease is lost; the work continues
			}
		}
	}()
	return func() { close(ended) }
}

// release returns at once. The release is repeated in the background for callTimeout. If it fails,
// the slot is free after the ttl.
func (l *leases) release(id string, hold hold) {
	l.pending.Add(1)
	go func() {
		defer l.pending.Done()
		_ = l.repeat(callTimeout, func(ctx context.Context) error {
			_, err := l.stub.ReleaseLease(ctx, &pb.ReleaseLeaseRequest{
				LeaseId: id, HoldOutcome: hold.outcome, Duration: hold.duration})
			return err
		})
	}()
}

// settle returns at once. The settlement is repeated in the background until it is stored. local:
// whether the lease was granted while the store did not answer.
func (l *leases) settle(id string, used Amounts, local bool, hold hold) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.settling >= l.maxSettlements {
		l.report(fmt.Sprintf("%d others are waiting", l.settling))
		return
	}
	l.settling++
	request := &pb.SettleLeaseRequest{LeaseId: id, Amounts: map[string]uint64{},
		HoldOutcome: hold.outcome, Duration: hold.duration}
	for name, value := range used {
		value := value
		if name == "cost" {
			request.Cost = &value
		} else {
			request.Amounts[name] = value
		}
	}
	l.pending.Add(1)
	go func() {
		defer l.pending.Done()
		failure := l.store(request, local)
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.settling--
		if failure != nil {
			l.report(failure.Error())
		}
	}()
}

// store repeats the settlement until it is stored or the client gives up. It returns nil if the
// settlement is stored, otherwise the reason why not.
// After QUEUED, the settlement is repeated, since the server that queued it may die. It is also
// repeated after NOT_FOUND if the lease was taken during an outage: such a lease is not found until
// its server reaches the store.
func (l *leases) store(request *pb.SettleLeaseRequest, local bool) error {
	return l.repeat(l.settleFor, func(ctx context.Context) error {
		answer, err := l.stub.SettleLease(ctx, request)
		outcome := answer.GetOutcome()
		if err == nil && (outcome == pb.Outcome_OUTCOME_QUEUED || local && outcome == pb.Outcome_OUTCOME_NOT_FOUND) {
			return errNotStored
		}
		return err
	})
}

// repeat calls `call` until it succeeds, or another attempt cannot help, or `period` has passed. It
// returns the error of the last attempt. UNAUTHENTICATED is repeated, since gRPC also returns it if
// the credentials in DialOptions fail.
func (l *leases) repeat(period time.Duration, call func(context.Context) error) error {
	end := time.Now().Add(period)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		timeout := min(callTimeout, time.Until(end))
		if timeout < firstPause {
			timeout = firstPause
		}
		err := attempt(timeout, call)
		final := isMistake(err) && status.Code(err) != codes.Unauthenticated
		if err == nil || final || time.Now().Add(pause).After(end) {
			return err
		}
		select {
		case <-l.closed:
			return err
		case <-time.After(pause/2 + time.Duration(rand.Int63n(int64(pause/2)))):
		}
	}
}

// attempt makes a call in the background. If the credentials in DialOptions panic, the attempt has
// failed.
func attempt(timeout time.Duration, call func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return call(ctx)
}

// close waits for releases and settlements, for at most `drain`. It returns how many settlements
// are lost in all.
func (l *leases) close(drain time.Duration) int {
	done := make(chan struct{})
	go func() {
		l.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(drain):
	}
	close(l.closed)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.lost + l.settling
}

// report requires that the caller holds the mutex.
func (l *leases) report(why string) {
	l.lost++
	log.Printf("sluice: a settlement is lost, its lease stays charged as taken: %s", why)
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}
