// Keys of MindSpore, MindOCR and MMEngine that are accepted as synonyms of ours (docs/coming_from.md).
#pragma once

#include <lockstep/base/config.h>

namespace lockstep::train {

/// The configuration with synonyms replaced by our keys, which keep the positions in the file. Error(config) when a key
/// is given by both names, or a synonym has a value that has no counterpart.
ConfigNode with_own_names(ConfigNode root);

}  // namespace lockstep::train
