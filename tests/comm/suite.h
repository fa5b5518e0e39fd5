// One suite for every backend and world size.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Backend and number of ranks.
using Case = std::pair<std::string, int>;

/// Every backend with 3 ranks and some with 2 and 4, thoroughly with 1 to 4, and hierarchy over tls; under mpirun the
/// mpi backend, and hierarchy over it, with the ranks there are.
std::vector<Case> cases();

/// The settings of the ranks of a case. "hierarchy_tls" is hierarchy with encryption between the hosts.
RankOptions options_of(const Case& one);

/// The hosts that the ranks of a case are on: several for hierarchy, one (none are named) for the others.
std::vector<std::string> hosts_of(const Case& one);

/// Those of `members` that are on the host of `rank`, in their order, where `hosts` are RankOptions::hosts.
std::vector<int> neighbours(const std::vector<std::string>& hosts, std::vector<int> members, int rank);

/// "tcp_3"
std::string case_name(const testing::TestParamInfo<Case>& info);

class CommSuite : public testing::TestWithParam<Case> {
 protected:
  int size() const { return GetParam().second; }

  /// Runs the body on all ranks; `change` may adjust the options.
  void run(const RankBody& body, const std::function<void(RankOptions&)>& change = nullptr) const;
};

/// All dtypes that are reduced: floating, integer, bool.
const std::vector<at::ScalarType>& reduced_dtypes();
/// And those that are only moved.
const std::vector<at::ScalarType>& moved_dtypes();

/// Small whole numbers that differ between ranks and elements, exact in every dtype; for bool 0 and 1.
at::Tensor numbers(int rank, at::IntArrayRef shape, at::ScalarType dtype);

/// What a reduction of numbers(0..size-1) gives, computed in one process.
at::Tensor reduced_numbers(int size, at::IntArrayRef shape, at::ScalarType dtype, ReduceOp op);

/// The sum of these, one for each rank, in the order that all backends keep (comm/reduction/kernels.h).
at::Tensor in_tree_order(const std::vector<at::Tensor>& tensors);

/// Equal in dtype, shape and every bit.
testing::AssertionResult same(const at::Tensor& actual, const at::Tensor& expected);

/// The Error that `call` throws; fails the test and returns an empty one when there is none.
Error error_of(const std::function<void()>& call);

/// Fails unless the message has all of the words.
void expect_words(const Error& error, const std::vector<std::string>& words);

}  // namespace lockstep::test
