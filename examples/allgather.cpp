// Every rank contributes one number, and all of them get everybody's.
//
//   lockstep run --nproc-per-node 4 ./allgather       or       mpirun -n 4 ./allgather
//
// Rank 0 prints [[0.], [1.], [2.], [3.]].
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <iostream>

// As numpy would on one line: "[[0.], [1.]]".
void print_column(const torch::Tensor& column) {
  std::cout << '[';
  for (int64_t row = 0; row < column.size(0); ++row) {
    std::cout << (row == 0 ? "[" : ", [") << column[row].item<float>() << ".]";
  }
  std::cout << ']' << std::endl;
}

int main() {
  try {
    const auto group = lockstep::init();
    const auto mine = torch::full({1, 1}, static_cast<float>(group.rank()));
    const auto all = lockstep::all_gather(mine, group);  // [ranks, 1], the same on every rank
    if (group.rank() == 0) print_column(all);
    return 0;
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);  // tells the launcher why
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
