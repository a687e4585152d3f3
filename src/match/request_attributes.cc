#include "match/request_attributes.h"

namespace sluice {

void AttributeTable::Add(std::string_view name, bool is_address) {
  const Entry fresh{.id = static_cast<AttributeId>(entries_.size())};
  Entry& entry = entries_.try_emplace(std::string(name), fresh).first->second;
  entry.is_address = entry.is_address || is_address || name == "client_ip";
}

const AttributeTable::Entry* AttributeTable::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

void RequestAttributes::Fill(const AttributeTable& table, std::span<const Attribute> attributes) {
  count_ = 0;
  for (const Attribute& attribute : attributes) {
    const auto* entry = table.Find(attribute.name);
    if (entry == nullptr) continue;
    AttributeValue& fact = Slot(entry->id);
    fact.raw = attribute.value;
    fact.address.reset();
    if (!entry->is_address) continue;
    fact.address = IpAddress::Parse(attribute.value);
    if (!fact.address) continue;
    fact.canonical.clear();
    fact.address->AppendTo(fact.canonical);
  }
}

const AttributeValue* RequestAttributes::Find(AttributeId id) const {
  for (const AttributeValue& fact : all()) {
    if (fact.id == id) return &fact;
  }
  return nullptr;
}

// A second value of one attribute replaces the first.
AttributeValue& RequestAttributes::Slot(AttributeId id) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (facts_[i].id == id) return facts_[i];
  }
  if (count_ == facts_.size()) facts_.emplace_back();
  facts_[count_].id = id;
  return facts_[count_++];
}

}  // namespace sluice
