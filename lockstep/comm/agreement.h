// Turns a call that differs between ranks into an error on all of them.
#pragma once

#include <lockstep/comm/group_impl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Bytes of the message that stands for a call; the same for all calls. Calls that differ have different ones, and so
/// have calls made on different courses (Call::course).
std::string fingerprint(const std::string& signature, std::uint64_t course = 0);
inline constexpr std::size_t kFingerprintBytes = 192;

/// How other ranks see a call that this rank refused to make.
std::string refusal(const std::string& signature, const std::string& problem);

/// What the ranks call, when they do not all call the same: `rank 0: broadcast float32[2] from 0; ranks 1, 2: ...`.
std::optional<std::string> disagreement(const std::vector<std::string>& fingerprints);

/// Compares `signature` (op and arguments, as people read them) between the ranks. A rank whose own arguments break a
/// rule passes its `problem`, and throws it as Error(invalid_argument) after the others have seen that.
/// Error(mismatch) on every other rank when they differ.
void agree(GroupImpl& group, const Call& call, const std::string& signature, const std::optional<std::string>& problem);

}  // namespace lockstep::detail
