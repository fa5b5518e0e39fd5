#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/plan/trace/as_it_is.h>
#include <lockstep/plan/trace/borrowed_module.h>
#include <lockstep/plan/trace/module_names.h>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>

namespace lockstep::plan {
namespace {

std::set<std::string, std::less<>> containers_of(const torch::nn::Module& module) {
  std::set<std::string, std::less<>> containers;
  for (const auto& each : module.named_modules(/*name_prefix=*/std::string(), /*include_self=*/false)) {
    const auto* inner = each.value().get();
    if (dynamic_cast<const torch::nn::SequentialImpl*>(inner) || dynamic_cast<const torch::nn::ModuleListImpl*>(inner))
      containers.insert(each.key());
  }
  return containers;
}

}  // namespace

BorrowedModule::BorrowedModule(torch::nn::Module& module, const PlanningMesh& mesh) {
  mesh.recorder->set_containers(containers_of(module));
  for (const auto& each : module.named_parameters()) borrow(each.key(), each.value(), ValueKind::parameter, mesh);
  for (const auto& each : module.named_buffers()) borrow(each.key(), each.value(), ValueKind::buffer, mesh);
}

void BorrowedModule::borrow(const std::string& name, const at::Tensor& tensor, ValueKind kind,
                            const PlanningMesh& mesh) {
  const auto same = [&](const Kept& each) { return each.tensor.is_same(tensor); };
  if (!tensor.defined() || std::any_of(kept_.begin(), kept_.end(), same)) return;
  if (global::is_global(tensor) && global::state_of(tensor).mesh->recorder() == nullptr) {
    fail(ErrorKind::invalid_argument, "plan", "{} is a global tensor already; plan a model before it is distributed",
         name);
  }
  kept_.push_back({.tensor = tensor, .before = as_it_is(tensor), .gradient = tensor.grad()});
  if (tensor.grad().defined()) tensor.mutable_grad() = at::Tensor();
  const auto planned = planning_tensor(mesh, global::shape_of(tensor));
  mesh.recorder->name(planned, kind, name, std::string(owner_of(name)));
  become(tensor, planned);
  if (kind == ValueKind::parameter && tensor.requires_grad()) parameters_.push_back(tensor);
}

BorrowedModule::~BorrowedModule() {
  for (const auto& each : kept_) {
    if (each.tensor.grad().defined()) each.tensor.mutable_grad() = at::Tensor();
    become(each.tensor, each.before);
    if (each.gradient.defined()) each.tensor.mutable_grad() = each.gradient;
  }
}

}  // namespace lockstep::plan
