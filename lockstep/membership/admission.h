// Admission of workers to a job. Pure: time is an argument, and the decision is a value with its reason.
#pragma once

#include <lockstep/membership/membership.h>
#include <lockstep/membership/messages.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::membership {

/// A process that requests to be a worker of this job.
struct Applicant {
  Register request;
  std::string address;
  std::uint64_t connection = 0;
  std::optional<Time> challenged;  ///< when the holder of its node id was sent a Ping
  std::string challenged_life{};   ///< the life of that holder
  bool put_off = false;            ///< it was told to wait until this job has ended
  Time heard{};                    ///< time of its last message
};

enum class Verdict {
  welcome,       ///< a new member, or the replacement of a lost one
  welcome_back,  ///< the process is a member already: only its connection is new
  challenge,     ///< the holder of the place may be alive: send it a Ping, and decide again
  put_off,       ///< this job is ending well, and the applicant may belong to the next one
  refuse,        ///< permanently
};

struct Admission {
  Verdict verdict = Verdict::refuse;
  std::string reason;
  std::optional<std::string> replaces{};  ///< the node id of the member that it replaces
};

Admission admit(const Membership& membership, const Applicant& applicant, Time now);

/// Carries out an admission, for the welcome verdicts.
void enter(Membership& membership, const Applicant& applicant, const Admission& admission, Time now);

}  // namespace lockstep::membership
