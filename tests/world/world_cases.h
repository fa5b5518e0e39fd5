// Tables of environments and what they must be read as.
#pragma once

#include <lockstep/world/world.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {

/// An environment from lines such as "RANK=0 WORLD_SIZE=2".
inline Environment environment_of(std::string_view text) {
  Environment environment;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    const auto equals = word.find('=');
    environment.emplace(word.substr(0, equals), word.substr(equals + 1));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return environment;
}

/// A world in short: "pytorch 1/4 local 1/2 tcp host:29500".
inline std::string brief(const World& world) {
  std::string text = world.launcher + " " + std::to_string(world.rank) + "/" + std::to_string(world.size) + " local " +
                     std::to_string(world.local_rank) + "/" + std::to_string(world.local_size);
  switch (world.rendezvous) {
    case Rendezvous::alone: return text + " alone";
    case Rendezvous::tcp: return text + " tcp " + world.master_addr + ":" + std::to_string(world.master_port);
    case Rendezvous::file: return text + " file " + world.store_path;
    case Rendezvous::mpi: return text + " mpi";
    case Rendezvous::scheduler: return text + " scheduler " + world.master_addr;
  }
  return text;
}

struct Reading {
  std::string_view environment;
  std::string_view world;  ///< as `brief` writes it
};

/// Every environment must be read as its world.
inline void expect_readings(const std::vector<Reading>& readings, std::string_view launcher = "auto") {
  for (const auto& [text, world] : readings) {
    SCOPED_TRACE(text);
    try {
      EXPECT_EQ(brief(detect_world(environment_of(text), launcher)), world);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

struct Refusal {
  std::string_view environment;
  std::vector<std::string_view> words;
};

/// Every environment must be an Error(environment) with its words.
inline void expect_refusals(const std::vector<Refusal>& refusals, std::string_view launcher = "auto") {
  for (const auto& [text, words] : refusals) {
    SCOPED_TRACE(text);
    const auto error =
        expect_error(ErrorKind::environment, {}, [&, t = text] { detect_world(environment_of(t), launcher); });
    if (!error) continue;
    for (const auto word : words) expect_words(error->what(), {word});
  }
}

}  // namespace lockstep::test
