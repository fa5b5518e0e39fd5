// Where a scheduler keeps its state, so that another one can go on with it: a file, or whatever can load and save a
// text.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::scheduler {

struct StatePlace {
  std::string name;                                  ///< for messages
  std::function<std::optional<std::string>()> load;  ///< nullopt: nothing was ever saved. Error when that is unknown
  std::function<void(const std::string&)> save;      ///< as a whole or not at all; an Error when it is not there then
};

/// Makes the file's folder at once. Error(io) when that cannot be done; `load` and `save` throw the same.
StatePlace state_in_file(const std::filesystem::path& file);

}  // namespace lockstep::scheduler
