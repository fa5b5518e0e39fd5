// Collectives over text: broadcast and gather of strings.
#pragma once

#include <lockstep/comm/group.h>

#include <string>
#include <vector>

namespace lockstep {

/// Every rank returns `root`'s `text`, of any length; the text of the other ranks is ignored. A collective.
std::string share_text(const std::string& text, const Group& group, int root = 0);

/// The texts of all ranks, by rank. A collective.
std::vector<std::string> gather_texts(const std::string& own, const Group& group);

}  // namespace lockstep
