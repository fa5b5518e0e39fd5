// The storage of a scheduler's state, from which another scheduler can continue: a file, or any pair of functions that
// load and save a text.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::scheduler {

struct StatePlace {
  std::string name;                                  ///< for messages
  std::function<std::optional<std::string>()> load;  ///< nullopt: nothing was ever saved. Error when that is not known
  std::function<void(const std::string&)> save;      ///< as a whole or not at all; an Error when it failed
};

/// State in a file. Makes the file's folder at once. Error(io) when that fails; `load` and `save` throw the same.
StatePlace state_in_file(const std::filesystem::path& file);

}  // namespace lockstep::scheduler
