// Proofs of the secret that the scheduler and its workers share, and random tokens.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::scheduler {

/// 32 random hexadecimal digits that cannot be guessed. Error(io) when the system has no random bytes.
std::string random_token();

/// The proof that the sender knows the secret: HMAC-SHA-256 over the sender and the nonce that the other side chose.
/// `who`: "scheduler", or "worker" and the token of its process.
std::string prove(std::string_view secret, std::string_view who, std::string_view nonce);

/// Whether `proof` is correct; compares in constant time.
bool is_proof(std::string_view proof, std::string_view secret, std::string_view who, std::string_view nonce);

}  // namespace lockstep::scheduler
