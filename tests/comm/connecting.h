// Worlds and options of ranks that connect in tests.
#pragma once

#include <lockstep/comm/group.h>

#include "comm/suite.h"

#include <chrono>
#include <filesystem>
#include <string_view>

namespace lockstep::test {

/// A rank of a job that meets in a file.
inline World world_at(const std::filesystem::path& store, int rank, int size) {
  World world;
  world.rank = rank;
  world.size = size;
  world.rendezvous = Rendezvous::file;
  world.store_path = store;
  return world;
}

/// Waits 2 s for the others.
inline GroupOptions impatient(std::string_view backend = "tcp") {
  auto options = RankOptions::test_group_options(backend);
  options.start_timeout = std::chrono::seconds(2);
  return options;
}

}  // namespace lockstep::test
