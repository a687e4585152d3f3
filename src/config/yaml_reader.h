// YAML text as a tree of nodes with positions. The subset for configuration: one document; no tags;
// anchors and aliases only where the caller allows them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.h"

namespace sluice {

struct YamlNode {
  enum class Kind {
    kNull,
    kScalar,
    kSequence,
    kMap,
    kRefused,  // already reported: do not report it again
  };
  Kind kind = Kind::kNull;
  Position position = {};
  std::string text = {};             // of a scalar
  std::vector<YamlNode> items = {};  // of a sequence; of a map: keys and values alternating
  bool quoted = false;               // a scalar in quotes or in block style, which is a string

  // The value of `key` in a map. Null if the key is absent or this node is not a map.
  const YamlNode* Find(std::string_view key) const;
};

// Receives the items of one top-level sequence while they are read, so that a file of 100,000 rules
// is never held as one tree. The sequence stays empty in the document.
struct YamlItemStream {
  std::string_view key;
  std::function<void(std::size_t index, const YamlNode& item)> take;
};

// Whether aliases are resolved: `*name` is replaced by a copy of the node marked `&name`. In a map,
// `<<: *name` is replaced by the pairs of that node, except keys that the map has itself. The total
// size of all copies is bounded.
enum class YamlAliases { kRefused, kResolved };

// Parses `text` and returns its document; kNull if `text` has no document. Appends mistakes to
// `errors`, with `file` as the file name; after a syntax error the node is kRefused.
YamlNode ReadYaml(std::string_view file, std::string_view text, const YamlItemStream& stream,
                  Diagnostics& errors, YamlAliases aliases = YamlAliases::kRefused);

}  // namespace sluice
