// The owner of each slot of a simulated cluster, and the errors of a server that does not have all
// keys of a command.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "tests/simulation/script.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

class SlotMap {
 public:
  // Each of `owners` gets a range of slots, of random size.
  SlotMap(World& world, std::vector<Address> owners);

  // The index of the owner of the key's slot. Changes only when the slot moves.
  std::size_t OwnerOf(std::string_view key) const;
  // `by` takes over all slots of `owner`.
  void Replace(std::size_t owner, const Address& by) { owners_[owner] = by; }

  // Starts to migrate the slot of `key` to `to`. Until EndMove, keys of the slot may move one by
  // one, and the owner is unchanged.
  void BeginMove(std::string_view key, std::size_t to);
  void EndMove(std::string_view key);
  bool moves(std::size_t owner) const;

  // The error with which `server` refuses a command with these keys. Empty if the server runs the
  // command. `held`: the counters and records of the server.
  std::string RefusalOf(const Address& server, std::span<const std::string> keys, bool asking,
                        const Script::Counters& held) const;
  // Whether a script at `server` may read a key that it has not declared.
  bool MayRead(const Address& server, std::string_view key, bool asking,
               const Script::Counters& held) const;

  // The slot map in the format of CLUSTER SLOTS.
  std::string Describe() const;

 private:
  bool Owns(const Address& server, std::uint16_t slot) const {
    return owners_[owner_of_[slot]] == server;
  }
  bool Imports(const Address& server, std::uint16_t slot) const {
    const auto move = moves_to_.find(slot);
    return move != moves_to_.end() && owners_[move->second] == server;
  }

  std::vector<Address> owners_;
  std::vector<std::uint8_t> owner_of_;             // by slot
  std::map<std::uint16_t, std::size_t> moves_to_;  // by slot
};

}  // namespace sluice::simulation
