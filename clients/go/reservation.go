package client

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ErrSettled is the error of an Extend of a settled reservation.
var ErrSettled = errors.New("the reservation is settled")

// Amounts of units by name: Amounts{"tokens": 212}. "cost" is a name, too.
type Amounts map[string]uint64

// Reservation holds units under a lease, which is renewed until Settle. Safe for concurrent use.
type Reservation struct {
	Work
	client  *Client
	request *request // the first one

	mutex    sync.Mutex
	decision Decision
	parts    []part // in the order in which they were taken
	used     Amounts
	settled  bool
}

type part struct {
	id    string
	held  Amounts
	local bool   // whether the lease was granted while the store did not answer
	stop  func() // ends the renewal
}

// Reserve takes units of all limits under a lease, and returns a *LimitedError if the request is
// denied. If the answer has a wait, Reserve sleeps for it. End the reservation with
// `defer reservation.Settle(nil)`. If the work fails, call reservation.ReportError(err) before the
// reservation is settled: limits with `adapt` learn from the error.
func (c *Client) Reserve(ctx context.Context, domain string, attributes Attributes,
	options ...CheckOption) (*Reservation, error) {
	first := c.request(domain, attributes, options)
	if first.LeaseTtl == nil {
		first.LeaseTtl = durationpb.New(c.leaseTTL)
	}
	reservation := &Reservation{client: c, request: first, used: Amounts{}}
	held := Amounts{"cost": 1, "requests": 1}
	if first.Cost != nil {
		held["cost"] = *first.Cost
		if *first.Cost == 0 {
			held["requests"] = 0
		}
	}
	for name, value := range first.Amounts {
		held[name] = value
	}
	if err := reservation.take(ctx, first, held); err != nil {
		reservation.Settle(nothingOf(held))
		return nil, err
	}
	return reservation, nil
}

// Decision returns the last decision that allowed units: that of Reserve, or of an Extend.
func (r *Reservation) Decision() Decision {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.decision
}

// Use sets what has been used until now, in total. If no call of Use or Settle names
// an amount, the amount is settled as taken.
func (r *Reservation) Use(amounts Amounts) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for name, value := range amounts {
		r.used[name] = value
	}
}

// Extend takes more units for the next part of the work, under a further lease. This does not count
// as a request, and takes no slot unless "cost" is named. If the units are denied, Extend returns a
// *LimitedError. If the reservation is settled, Extend returns ErrSettled.
func (r *Reservation) Extend(ctx context.Context, amounts Amounts) error {
	if r.isSettled() {
		return ErrSettled
	}
	next := proto.Clone(r.request).(*request)
	next.Cost, next.Amounts = new(uint64), map[string]uint64{}
	if amounts["cost"] > 0 {
		next.Amounts["requests"] = 0
	}
	for name, value := range amounts {
		if name == "cost" {
			*next.Cost = value
		} else {
			next.Amounts[name] = value
		}
	}
	held := Amounts{"cost": *next.Cost}
	for name, value := range next.Amounts {
		held[name] = value
	}
	return r.take(ctx, next, held)
}

// Settle ends the reservation with what was used. First it sets `amounts`, as Use does.
// The client repeats the settlement in the background until it is stored. Settling again does
// nothing.
func (r *Reservation) Settle(amounts Amounts) {
	r.Use(amounts)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.settled {
		return
	}
	r.settled = true
	hold := r.ended(nil, r.client.overloaded)
	for index, share := range split(r.parts, r.used) {
		part := r.parts[index]
		part.stop()
		r.client.leases.settle(part.id, share, part.local, hold)
	}
}

func (r *Reservation) take(ctx context.Context, next *request, held Amounts) error {
	decision, err := r.client.decide(ctx, next)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return &LimitedError{decision}
	}
	if err := r.add(decision, held); err != nil {
		return err
	}
	return sleep(ctx, decision.Wait)
}

func (r *Reservation) isSettled() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.settled
}

// Without a lease there is nothing to settle: no rule counts the request, or no server answered.
func (r *Reservation) add(decision Decision, held Amounts) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.decision = decision
	lease := decision.Response.GetLease()
	leased := lease.GetId() != ""
	local := decision.Response.GetSource() == sourceFallback
	if r.settled { // during the check
		if leased {
			r.client.leases.settle(lease.GetId(), nothingOf(held), local, ignored)
		}
		return ErrSettled
	}
	if leased {
		r.parts = append(r.parts, part{lease.GetId(), held, local, r.client.leases.renew(lease)})
	}
	return nil
}

func nothingOf(held Amounts) Amounts {
	nothing := Amounts{}
	for name := range held {
		nothing[name] = 0
	}
	return nothing
}

// split distributes the used units over the parts. Each part gets at most the units that it held,
// and the last part gets the rest.
func split(parts []part, used Amounts) []Amounts {
	shares := make([]Amounts, len(parts))
	for index := range shares {
		shares[index] = Amounts{}
	}
	for name, left := range used {
		for index, part := range parts {
			share := left
			if index < len(parts)-1 && part.held[name] < left {
				share = part.held[name]
			}
			shares[index][name] = share
			left -= share
		}
	}
	return shares
}
