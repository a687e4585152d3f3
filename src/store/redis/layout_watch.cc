#include "store/redis/layout_watch.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {
namespace {

// No checks are sent on this connection, so it needs no script, and may lead to a replica.
ServerAccess ToAsk(ServerAccess access) {
  access.loads_script = false;
  access.must_be_master = false;
  return access;
}

}  // namespace

LayoutWatch::LayoutWatch(std::vector<Address> servers, TopologyContext context)
    : loop_(context.loop),
      on_layout_(std::move(context.on_layout)),
      servers_(std::move(servers)),
      place_(loop_.Random() % servers_.size()),
      timer_(loop_.timers(), [this] { OnTime(); }),
      connection_(loop_, ToAsk(std::move(context.access)), context.status, *this) {}

void LayoutWatch::Stop() {
  timer_.Cancel();
  connection_.Stop();
}

// Each attempt uses the next server.
std::optional<Address> LayoutWatch::AddressToTry() {
  awaits_answer_ = false;
  place_ = (place_ + 1) % servers_.size();
  return servers_[place_];
}

void LayoutWatch::SetServers(std::vector<Address> servers) {
  const auto found = std::find(servers.begin(), servers.end(), asked());
  leaves_ = found == servers.end();
  place_ = leaves_ ? 0 : static_cast<std::size_t>(found - servers.begin());
  servers_ = std::move(servers);
}

void LayoutWatch::OnLayoutSuspect() {
  if (!in_doubt_since_) in_doubt_since_ = loop_.now();
  if (!connection_.ready() || awaits_answer_) return;
  const SteadyTime soon = asked_at_ + kInDoubt;
  if (!timer_.active() || soon < timer_.at()) timer_.Start(std::max(soon, loop_.now()));
}

void LayoutWatch::OnTime() {
  if (awaits_answer_) return connection_.Restart("no answer in time");
  const bool doubtful = in_doubt_since_ && loop_.now() - *in_doubt_since_ >= kLastingDoubt;
  if (!doubtful && !leaves_) return AskNow();
  in_doubt_since_.reset();
  leaves_ = false;
  connection_.ReconnectElsewhere();
}

void LayoutWatch::AskNow() {
  asked_at_ = loop_.now();
  awaits_answer_ = true;
  timer_.Start(loop_.now() + kSilence);
  Ask(connection_);
}

void LayoutWatch::OnPartOfReply() {
  if (!awaits_answer_) return;
  timer_.Start(std::min(loop_.now() + kSilence, asked_at_ + kWholeAnswer));
}

void LayoutWatch::OnAnswer(Layout layout) {
  awaits_answer_ = false;
  connection_.MarkHealthy();
  timer_.Start(loop_.now() + kEvery);
  if (layout != latest_) in_doubt_since_.reset();
  latest_ = std::move(layout);
  on_layout_(std::make_shared<const Layout>(latest_));
}

}  // namespace sluice::redis
