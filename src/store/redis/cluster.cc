#include "store/redis/cluster.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "store/redis/slot.h"

namespace sluice::redis {
namespace {

// A slot range and its owner. In the reply, a range is an array: first, last, master, replicas…;
// and a node is an array: host, port, …
struct Range {
  std::size_t first;
  std::size_t last;
  Address master;
};

bool IsArray(const redisReply& reply, std::size_t elements) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements >= elements;
}

// The IP address in the metadata of a node; "" if the metadata has no address. `server` is the node
// as an array: host, port, id, metadata. The metadata is a list of keys and values.
std::string_view IpOf(const redisReply& server) {
  if (server.elements < 4 || !IsArray(*server.element[3], 2)) return {};
  const redisReply& more = *server.element[3];
  for (std::size_t i = 0; i + 1 < more.elements; i += 2) {
    if (TextOf(*more.element[i]) == "ip") return TextOf(*more.element[i + 1]);
  }
  return {};
}

// If a node is configured to announce a hostname but has none, it announces "?". Its IP address is
// then used. If a node does not know its own name, it announces an empty name. The host of `asked`,
// the node that was queried, is then used.
std::optional<Address> AddressOf(const redisReply& server, const Address& asked) {
  if (!IsArray(server, 2) || server.element[1]->type != REDIS_REPLY_INTEGER) return std::nullopt;
  std::string_view host = TextOf(*server.element[0]);
  if (host == "?") host = IpOf(server);
  return Address{.host = host.empty() ? asked.host : std::string(host),
                 .port = static_cast<std::uint16_t>(server.element[1]->integer),
                 .unix_path = {}};
}

std::optional<Range> RangeOf(const redisReply& reply, const Address& asked) {
  if (!IsArray(reply, 3)) return std::nullopt;
  const redisReply& first = *reply.element[0];
  const redisReply& last = *reply.element[1];
  auto master = AddressOf(*reply.element[2], asked);
  if (!master || first.type != REDIS_REPLY_INTEGER || last.type != REDIS_REPLY_INTEGER ||
      first.integer < 0 || first.integer > last.integer ||
      last.integer >= static_cast<long long>(kSlots)) {
    return std::nullopt;
  }
  return Range{static_cast<std::size_t>(first.integer), static_cast<std::size_t>(last.integer),
               std::move(*master)};
}

std::optional<Layout> LayoutOf(const redisReply& reply, const Address& asked) {
  if (!IsArray(reply, 0)) return std::nullopt;
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < reply.elements; ++i) {
    auto range = RangeOf(*reply.element[i], asked);
    if (!range) return std::nullopt;
    ranges.push_back(std::move(*range));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  Layout layout{.servers = {}, .owners = std::vector<std::uint16_t>(kSlots, Layout::kNobody)};
  for (const Range& range : ranges) {
    auto place = std::find(layout.servers.begin(), layout.servers.end(), range.master);
    if (place == layout.servers.end()) place = layout.servers.insert(place, range.master);
    const auto owner = static_cast<std::uint16_t>(place - layout.servers.begin());
    for (std::size_t slot = range.first; slot <= range.last; ++slot) layout.owners[slot] = owner;
  }
  return layout;
}

}  // namespace

void Cluster::Ask(Connection& connection) { connection.Send({"CLUSTER", "SLOTS"}); }

void Cluster::Read(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) return OnNoAnswer(TextOf(reply));
  auto layout = LayoutOf(reply, asked());
  if (!layout) return OnNoAnswer("its slot map is malformed");
  if (layout->servers.empty()) return OnNoAnswer("no slot in its slot map has an owner");
  std::vector<Address> to_ask = layout->servers;
  to_ask.insert(to_ask.end(), seeds_.begin(), seeds_.end());
  SetServers(std::move(to_ask));
  OnAnswer(std::move(*layout));
}

}  // namespace sluice::redis
