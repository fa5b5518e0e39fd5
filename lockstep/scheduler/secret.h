// A secret that the scheduler and its workers share, and random names.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::scheduler {

/// 32 hexadecimal digits that nobody can guess. Error(io) when the system has no random bytes.
std::string random_token();

/// That whoever writes this knows the secret: HMAC-SHA-256 over who it is and the nonce that the other side chose.
/// `who`: "scheduler", or "worker" and the token of its process.
std::string prove(std::string_view secret, std::string_view who, std::string_view nonce);

/// Whether `proof` is that, in a time that does not depend on where it differs.
bool is_proof(std::string_view proof, std::string_view secret, std::string_view who, std::string_view nonce);

}  // namespace lockstep::scheduler
