// The comparison of a call between ranks: a call that differs becomes an error on all of them.
#pragma once

#include <lockstep/comm/group_impl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

/// The message that represents a call. All messages have the same length. Different calls have different fingerprints,
/// and so do calls on different traces (Call::trace).
std::string fingerprint(const std::string& signature, std::uint64_t trace = 0);
inline constexpr std::size_t kFingerprintBytes = 192;

/// The text that replaces the signature of a call that this rank refused to make.
std::string refusal(const std::string& signature, const std::string& problem);

/// The calls by rank, when they are not all the same: `rank 0: broadcast float32[2] from 0; ranks 1, 2: ...`.
std::optional<std::string> disagreement(const std::vector<std::string>& fingerprints);

/// Compares `signature` (op and arguments as readable text) between the ranks. A rank whose own arguments break a rule
/// passes its `problem`, and throws it as Error(invalid_argument) after the other ranks have received it. When the
/// signatures differ, every other rank throws Error(mismatch).
void agree(GroupImpl& group, const Call& call, const std::string& signature, const std::optional<std::string>& problem);

}  // namespace lockstep::detail
