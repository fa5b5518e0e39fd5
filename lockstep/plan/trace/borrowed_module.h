// A module whose parameters and buffers temporarily have no memory.
#pragma once

#include <lockstep/plan/trace/planning_mesh.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::plan {

/// While it exists, the tensors of the module are values of the recorder's graph, for all handles to them; its
/// destructor restores them with their values and gradients. The module must outlive it. Error(invalid_argument) for a
/// module whose parameters are global already.
class BorrowedModule {
 public:
  BorrowedModule(torch::nn::Module& module, const PlanningMesh& mesh);
  ~BorrowedModule();
  BorrowedModule(const BorrowedModule&) = delete;
  BorrowedModule& operator=(const BorrowedModule&) = delete;

  /// The trainable parameters, each once.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  struct Kept {
    at::Tensor tensor;
    at::Tensor before;
    at::Tensor gradient;
  };
  void borrow(const std::string& name, const at::Tensor& tensor, ValueKind kind, const PlanningMesh& mesh);

  std::vector<Kept> kept_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace lockstep::plan
