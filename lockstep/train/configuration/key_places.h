// The places of keys in a file, for messages of rules between keys, which see only values.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

namespace lockstep::train {

/// The error with the place of the first key that it names and the configuration `given` has; else with that of the
/// first section. As it is where it has a place, is of another kind than config, or names nothing that is given.
Error with_place(const Error& error, const ConfigNode& given);

}  // namespace lockstep::train
