// A command line in memory: what it returned and printed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/cli.hpp"

namespace tmesh::cli {

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

inline Ran run_cli(const Program& program, const std::vector<std::string_view>& words,
                   const std::vector<const char*>& environment = {}) {
  Ran ran;
  char* texts[2] = {};
  std::size_t sizes[2] = {};
  std::FILE* out = ::open_memstream(&texts[0], &sizes[0]);
  std::FILE* err = ::open_memstream(&texts[1], &sizes[1]);
  std::vector<const char*> variables = environment;
  variables.push_back(nullptr);
  ran.code = execute(program, words, variables.data(), out, err);
  std::fclose(out);
  std::fclose(err);
  ran.out.assign(texts[0], sizes[0]);
  ran.err.assign(texts[1], sizes[1]);
  std::free(texts[0]);
  std::free(texts[1]);
  return ran;
}

}  // namespace tmesh::cli
