// The generator of the last part of docs/global.md, the tables of operators on sharded tensors.
#pragma once

#include <string>

namespace lockstep::global {

/// The text of docs/global.md from the note on, that it is generated, to the end.
std::string ops_page();

}  // namespace lockstep::global
