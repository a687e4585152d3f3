#include "match/value_index.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>

namespace sluice {
namespace {

void Append(const EntryIds& entries, EntryIds& found) {
  found.insert(found.end(), entries.begin(), entries.end());
}

// The length of the common prefix of `a` and `b`.
std::size_t CommonLength(std::string_view a, std::string_view b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

// All regular expressions on one attribute, as one automaton.
class ValueIndex::Expressions {
 public:
  // `options` apply to each expression.
  explicit Expressions(const re2::RE2::Options& options)
      : set_(WithMoreMemory(options), re2::RE2::ANCHOR_BOTH) {}

  void Add(const Matcher& atom, EntryId entry) {
    const auto [known, fresh] = numbers_.try_emplace(atom.text, members_.size());
    if (fresh) {
      members_.push_back({atom.regex, {}});
      set_.Add(atom.text, nullptr);
    }
    members_[known->second].entries.push_back(entry);
  }

  Result<void> Compile() {
    if (!set_.Compile()) {
      return InvalidArgument("the regular expressions on one attribute need too much memory");
    }
    return {};
  }

  void Find(std::string_view value, EntryIds& found) const {
    thread_local std::vector<int> numbers;
    re2::RE2::Set::ErrorInfo error{};
    if (set_.Match({value.data(), value.size()}, &numbers, &error)) {
      for (const int number : numbers) Append(members_[number].entries, found);
    } else if (error.kind != re2::RE2::Set::kNoError) {
      FindOneByOne(value, found);
    }
  }

 private:
  struct Member {
    std::shared_ptr<const re2::RE2> regex;
    EntryIds entries;
  };

  static re2::RE2::Options WithMoreMemory(re2::RE2::Options options) {
    options.set_max_mem(64 << 20);
    return options;
  }

  // Used if the combined automaton runs out of memory on `value`. A single expression needs less.
  void FindOneByOne(std::string_view value, EntryIds& found) const {
    for (const Member& member : members_) {
      if (re2::RE2::FullMatch({value.data(), value.size()}, *member.regex)) {
        Append(member.entries, found);
      }
    }
  }

  re2::RE2::Set set_;
  std::vector<Member> members_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

ValueIndex::ValueIndex() = default;
ValueIndex::~ValueIndex() = default;
ValueIndex::ValueIndex(ValueIndex&&) noexcept = default;

void ValueIndex::Add(const Matcher& atom, EntryId entry) {
  using Kind = Pattern::Kind;
  switch (atom.kind) {
    case Kind::kExact: {
      const auto known = exact_.try_emplace(atom.text, -1).first;
      links_.push_back({entry, known->second});
      known->second = static_cast<std::int32_t>(links_.size()) - 1;
      return;
    }
    case Kind::kPrefix:
      added_prefixes_[atom.text].push_back(entry);
      return;
    case Kind::kCidr: {
      networks_[atom.network].push_back(entry);
      auto& lengths = atom.network.address.is_v4() ? v4_lengths_ : v6_lengths_;
      if (std::ranges::find(lengths, atom.network.prefix) == lengths.end()) {
        lengths.push_back(atom.network.prefix);
      }
      return;
    }
    case Kind::kRegex:
      if (!expressions_) expressions_ = std::make_unique<Expressions>(atom.regex->options());
      expressions_->Add(atom, entry);
      return;
    case Kind::kExists:
    case Kind::kAnyOf:
    case Kind::kNot:
      any_.push_back(entry);
      return;
  }
}

Result<void> ValueIndex::Freeze() {
  LinkPrefixes();
  links_.shrink_to_fit();
  return expressions_ ? expressions_->Compile() : Result<void>();
}

void ValueIndex::Find(const AttributeValue& fact, EntryIds& found) const {
  Append(any_, found);
  if (const auto exact = exact_.find(fact.text()); exact != exact_.end()) {
    for (auto at = exact->second; at >= 0; at = links_[at].before) {
      found.push_back(links_[at].entry);
    }
  }
  if (!prefixes_.empty()) FindPrefixes(fact.text(), found);
  if (fact.address && !networks_.empty()) FindNetworks(*fact.address, found);
  if (expressions_) expressions_->Find(fact.text(), found);
}

// In sorted order, a text follows its own prefixes, and all texts between a prefix and the text
// also begin with that prefix. So the parent of a text is its predecessor or one of the
// predecessor's ancestors.
void ValueIndex::LinkPrefixes() {
  prefixes_.reserve(added_prefixes_.size());
  for (auto& [text, entries] : added_prefixes_) {
    std::int32_t parent = static_cast<std::int32_t>(prefixes_.size()) - 1;
    while (parent >= 0 && !text.starts_with(prefixes_[parent].text)) {
      parent = prefixes_[parent].parent;
    }
    prefixes_.push_back({text, parent, std::move(entries)});
  }
  added_prefixes_.clear();
}

// Let L be the last text that does not sort after `value`. If any text is a prefix of `value`, the
// longest such text is L or an ancestor of L.
void ValueIndex::FindPrefixes(std::string_view value, EntryIds& found) const {
  const auto after = std::ranges::upper_bound(prefixes_, value, {}, &Prefix::text);
  std::int32_t at = static_cast<std::int32_t>(after - prefixes_.begin()) - 1;
  if (at < 0) return;
  const std::size_t common = CommonLength(prefixes_[at].text, value);
  for (; at >= 0; at = prefixes_[at].parent) {
    if (prefixes_[at].text.size() <= common) Append(prefixes_[at].entries, found);
  }
}

void ValueIndex::FindNetworks(const IpAddress& address, EntryIds& found) const {
  for (const int length : address.is_v4() ? v4_lengths_ : v6_lengths_) {
    const auto network = networks_.find(IpNetwork::Of(address, length));
    if (network != networks_.end()) Append(network->second, found);
  }
}

}  // namespace sluice
