#include "comm/shm/process_ranks.h"

#include <lockstep/base/error.h>

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>

namespace lockstep::shm::test {
namespace {

constexpr std::size_t kInvitationBytes = 128;  // longer than one, and short enough to be written and read at once

Gathering meet(const Invitations& invitations, const Geometry& geometry, int rank) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  if (rank != 0) return join(invitations.receive(), rank, geometry.ranks, deadline);
  Host host(geometry);
  invitations.send(host.invitation(), geometry.ranks - 1);
  return host.gather(deadline);
}

}  // namespace

Invitations::Invitations() : pipe_(make_pipe()) {}

void Invitations::send(const std::string& invitation, int guests) const {
  std::array<char, kInvitationBytes> text{};
  invitation.copy(text.data(), text.size() - 1);
  for (int i = 0; i < guests; ++i) {
    if (::write(pipe_.write_end.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      fail(ErrorKind::io, "test", "cannot write an invitation");
    }
  }
}

std::string Invitations::receive() const {
  std::array<char, kInvitationBytes> text{};
  if (::read(pipe_.read_end.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail(ErrorKind::io, "test", "cannot read an invitation");
  }
  return text.data();
}

void Tokens::give(int count) const {
  for (; count > 0; --count) {
    if (::write(pipe_.write_end.get(), "t", 1) != 1) fail(ErrorKind::io, "test", "cannot give a token");
  }
}

void Tokens::take(int count) const {
  char token = 0;
  for (; count > 0; --count) {
    if (::read(pipe_.read_end.get(), &token, 1) != 1) fail(ErrorKind::io, "test", "cannot take a token");
  }
}

ProcessRank::ProcessRank(const Invitations& invitations, const Geometry& geometry, int rank)
    : rank_(rank), size_(geometry.ranks), blocks_(std::make_shared<SharedBlocks>(rank)) {
  Gathering met = meet(invitations, geometry, rank);
  held_ = std::move(met.held);
  arena_ = std::make_unique<Arena>(std::move(met.arena), rank, size_, blocks_);
  const auto mapping = std::make_shared<Mapping>(std::move(met.segment));
  EngineOptions options{
      .rank = rank, .cpus = met.cpus, .world_ranks = {}, .lifelines = std::move(met.lifelines), .while_waiting = {}};
  for (int r = 0; r < size_; ++r) options.world_ranks.push_back(100 + r);
  engine_ = std::make_unique<Engine>(Segment(mapping->data(), met.geometry), mapping, std::move(options));
}

std::vector<lockstep::test::Outcome> process_outcomes(int n, const Geometry& geometry,
                                                      const std::function<void(ProcessRank&)>& body) {
  const Invitations invitations;
  Geometry whole = geometry;
  whole.ranks = n;
  return lockstep::test::fork_outcomes(n, {}, [&](int rank) {
    ProcessRank self(invitations, whole, rank);
    body(self);
  });
}

void run_processes(int n, const Geometry& geometry, const std::function<void(ProcessRank&)>& body) {
  lockstep::test::expect_all_ok(process_outcomes(n, geometry, body));
}

}  // namespace lockstep::shm::test
