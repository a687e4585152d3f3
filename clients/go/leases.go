package client

import (
	"context"
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
	firstPause  = 100 * time.Millisecond // between attempts to settle; doubled up to lastPause
	lastPause   = time.Second
)

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
			ctx, cancel := context.WithTimeout(context.Background(), period)
			_, err := l.stub.RenewLease(ctx, &pb.RenewLeaseRequest{LeaseId: lease.GetId()})
			cancel()
			if status.Code(err) == codes.NotFound {
				return // the lease is lost; the work continues
			}
		}
	}()
	return func() { close(ended) }
}

// release does not wait for the answer. If the call fails, the slot is free after the ttl.
func (l *leases) release(id string, hold hold) {
	l.pending.Add(1)
	go func() {
		defer l.pending.Done()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		_, _ = l.stub.ReleaseLease(ctx, &pb.ReleaseLeaseRequest{
			LeaseId: id, HoldOutcome: hold.outcome, Duration: hold.duration})
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
		if failure != "" {
			l.report(failure)
		}
	}()
}

// store repeats the settlement until it is stored or the client gives up. It returns "" if the
// settlement is stored, otherwise the reason why not.
// After QUEUED, the settlement is repeated, since the server that queued it may die. It is also
// repeated after NOT_FOUND if the lease was taken during an outage: such a lease is not found until
// its server reaches the store.
func (l *leases) store(request *pb.SettleLeaseRequest, local bool) string {
	end := time.Now().Add(l.settleFor)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		answer, err := l.stub.SettleLease(ctx, request)
		cancel()
		failure := "the store does not answer"
		outcome := answer.GetOutcome()
		if err != nil {
			failure = err.Error()
		} else if outcome != pb.Outcome_OUTCOME_QUEUED && !(local && outcome == pb.Outcome_OUTCOME_NOT_FOUND) {
			return ""
		}
		if isMistake(err) || time.Now().Add(pause).After(end) {
			return failure
		}
		select {
		case <-l.closed:
			return failure
		case <-time.After(pause/2 + time.Duration(rand.Int63n(int64(pause/2)))):
		}
	}
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
