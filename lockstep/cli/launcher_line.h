// The preparation of the arguments of `lockstep run` and `lockstep launch` before CLI11 parses them.
#pragma once

#include <lockstep/cli/pet_defaults.h>

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Of the launchers: spells the flags as CLI11 knows them, takes PROGRAM ARGS... off into `program`, gives flags their
/// defaults, and returns those. Nothing for other commands.
std::vector<PetDefault> prepare_launcher(CLI::App& app, std::vector<std::string>& arguments,
                                         std::vector<std::string>& program);

}  // namespace lockstep::cli
