// The places of keys in a file, for messages of rules between keys, which get only values.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

namespace lockstep::train {

/// Adds to the error the place of the first key that it names and that `given` has, else the place of the first such
/// section. Errors that already have a place, are not of kind config, or name nothing from `given` are not changed.
Error with_place(const Error& error, const ConfigNode& given);

}  // namespace lockstep::train
