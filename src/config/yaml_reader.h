// YAML text as a tree of nodes that know where they stand. The subset that a configuration needs:
// one document; no anchors, aliases or tags. The only file that knows yaml-cpp.
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
    kRefused,  // already reported: whoever meets it keeps silent
  };
  Kind kind = Kind::kNull;
  Position position;
  std::string text;             // of a scalar
  std::vector<YamlNode> items;  // of a sequence; of a map, keys and values by turns

  // The value of `key`, null if it is not there. REQUIRES: a map.
  const YamlNode* Find(std::string_view key) const;
};

// Takes the items of one top-level sequence as they are read, so that a file of 100,000 rules never
// is one tree. The sequence stays empty in the document.
struct YamlItemStream {
  std::string_view key;
  std::function<void(std::size_t index, const YamlNode& item)> take;
};

// Reads `text` and returns its document; kNull if there is none. Appends what is wrong to `errors`,
// with `file` as the file's name; after a syntax error the node is kRefused.
YamlNode ReadYaml(std::string_view file, std::string_view text, const YamlItemStream& stream,
                  Diagnostics& errors);

}  // namespace sluice
