// What else int16-1 could have been: errors of linear layers by the terms that share a unit and by the products of
// digits, and of attention by the keys of a block, the weights of values and the products. In binary64, which holds
// every integer here; docs/decisions/0009-int16-1.md has the tables.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

std::mt19937_64 random_bits(1);
std::normal_distribution<double> gaussian;

double draw() {
  return gaussian(random_bits);
}

double to_float(double x) {
  return static_cast<double>(static_cast<float>(x));
}

// To so many significant bits: 8 are BF16's, 11 TF32's.
double to_bits(double x, int bits) {
  int exponent = 0;
  const double significand = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, bits)), exponent - bits);
}

double largest(const Row& row) {
  double result = 0;
  for (const double x : row) result = std::max(result, std::fabs(x));
  return result;
}

// The least power of two with which the magnitude rounds to at most two signed digits.
int unit_of(double magnitude) {
  if (magnitude == 0) return -126;
  int unit = static_cast<int>(std::ceil(std::log2(magnitude / 32639))) - 1;
  while (std::nearbyint(std::ldexp(magnitude, -unit)) > 32639) ++unit;
  return unit;
}

double low_digit(double x, bool is_signed = true) {
  return x - 256 * std::floor((x + (is_signed ? 128 : 0)) / 256);
}

double relative_error(const Row& got, const Row& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - exact[i]) * (got[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

Row dots(const Rows& x, const Rows& w, const std::function<double(double, double)>& term) {
  Row results;
  for (const Row& row : x)
    for (const Row& column : w) {
      double sum = 0;
      for (std::size_t k = 0; k < row.size(); ++k) sum += term(row[k], column[k]);
      results.push_back(sum);
    }
  return results;
}

struct Snapped {
  Row integers;
  Row units;  // of each element, as powers of two
};

// Blocks share a unit, at most 2^24 apart.
Snapped snap(const Row& row, std::size_t block) {
  Snapped snapped;
  const int highest = unit_of(largest(row));
  for (std::size_t begin = 0; begin < row.size(); begin += block) {
    const std::size_t end = std::min(row.size(), begin + block);
    const Row part(row.begin() + static_cast<std::ptrdiff_t>(begin), row.begin() + static_cast<std::ptrdiff_t>(end));
    const int unit = std::max(unit_of(largest(part)), highest - 24);
    for (const double x : part) {
      snapped.integers.push_back(std::nearbyint(std::ldexp(x, -unit)));
      snapped.units.push_back(std::ldexp(1.0, unit));
    }
  }
  return snapped;
}

Row snapped_dots(const Rows& x, const Rows& w, std::size_t block, int products) {
  Row results;
  std::vector<Snapped> columns;
  for (const Row& column : w) columns.push_back(snap(column, column.size()));
  for (const Row& row : x) {
    const Snapped a = snap(row, block);
    for (const Snapped& b : columns) {
      double sum = 0;
      for (std::size_t k = 0; k < row.size(); ++k) {
        const double left_out = products == 3 ? low_digit(a.integers[k]) * low_digit(b.integers[k]) : 0;
        sum += (a.integers[k] * b.integers[k] - left_out) * a.units[k] * b.units[k];
      }
      results.push_back(sum);
    }
  }
  return results;
}

void linear(const char* name, std::size_t terms, const std::function<double(std::size_t)>& activation,
            const std::function<double(std::size_t)>& weight) {
  constexpr std::size_t kRows = 32;
  Rows x(kRows, Row(terms)), w(kRows, Row(terms));
  for (Row& row : x)
    for (std::size_t k = 0; k < terms; ++k) row[k] = to_float(activation(k));
  for (Row& row : w)
    for (std::size_t k = 0; k < terms; ++k) row[k] = to_bits(weight(k), 8);
  const Row exact = dots(x, w, [](double a, double b) { return a * b; });
  std::printf("%-28s K %5zu", name, terms);
  for (const int bits : {8, 11})
    std::printf(" | %s %.1e", bits == 8 ? "BF16" : "TF32",
                relative_error(dots(x, w, [bits](double a, double b) { return to_bits(a, bits) * b; }), exact));
  for (const std::size_t block : {std::size_t{128}, std::size_t{256}, std::size_t{512}, terms})
    for (const int products : {3, 4})
      std::printf(" | %zu, %d products %.1e", block, products,
                  relative_error(snapped_dots(x, w, block, products), exact));
  std::printf("\n");
}

struct Weights {
  const char* name;
  double largest;
  bool is_signed;
};

struct Head {
  Rows q, k, v;
};

Row attend(const Head& head, int bits) {
  const auto rounded = [bits](double x) { return bits == 0 ? x : to_bits(x, bits); };
  Row results;
  for (const Row& q : head.q) {
    Row scores;
    for (const Row& k : head.k) {
      double dot = 0;
      for (std::size_t d = 0; d < q.size(); ++d) dot += rounded(q[d]) * rounded(k[d]);
      scores.push_back(dot / std::sqrt(static_cast<double>(q.size())));
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    Row sums(q.size());
    double sum = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const double p = std::exp(scores[j] - max);
      sum += p;
      for (std::size_t d = 0; d < q.size(); ++d) sums[d] += rounded(p) * rounded(head.v[j][d]);
    }
    for (const double x : sums) results.push_back(x / sum);
  }
  return results;
}

// Integers inside a block of keys, a fold between blocks.
Row attend_in_integers(const Head& head, std::size_t block, const Weights& weights, int products) {
  std::vector<Snapped> keys, values;
  for (const Row& k : head.k) keys.push_back(snap(k, k.size()));
  for (const Row& v : head.v) values.push_back(snap(v, v.size()));
  const auto left_out = [products](double a, double b) { return products == 3 ? a * b : 0.0; };
  Row results;
  for (const Row& row : head.q) {
    const Snapped q = snap(row, row.size());
    double all_max = -INFINITY, all_sum = 0;
    Row all(row.size());
    for (std::size_t begin = 0; begin < keys.size(); begin += block) {
      Row scores, sums(row.size());
      double unit = 0, sum = 0;
      for (std::size_t j = begin; j < begin + block; ++j) {
        double dot = 0;
        for (std::size_t d = 0; d < row.size(); ++d)
          dot +=
              q.integers[d] * keys[j].integers[d] - left_out(low_digit(q.integers[d]), low_digit(keys[j].integers[d]));
        scores.push_back(dot * q.units[0] * keys[j].units[0] / std::sqrt(static_cast<double>(row.size())));
        unit = std::max(unit, values[j].units[0]);
      }
      const double max = *std::max_element(scores.begin(), scores.end());
      for (std::size_t j = begin; j < begin + block; ++j) {
        const double p = std::exp(scores[j - begin] - max);
        const double weight = std::nearbyint(p * weights.largest * values[j].units[0] / unit);
        sum += p;
        for (std::size_t d = 0; d < row.size(); ++d)
          sums[d] += weight * values[j].integers[d] -
                     left_out(low_digit(weight, weights.is_signed), low_digit(values[j].integers[d]));
      }
      const double larger = std::max(all_max, max), a = std::exp(all_max - larger), c = std::exp(max - larger);
      all_sum = all_sum * a + sum * c;
      for (std::size_t d = 0; d < row.size(); ++d) all[d] = all[d] * a + sums[d] * unit / weights.largest * c;
      all_max = larger;
    }
    for (const double x : all) results.push_back(x / all_sum);
  }
  return results;
}

void attention(const char* name, double sharpness, std::size_t count, bool spread) {
  constexpr std::size_t kDim = 128;
  constexpr Weights kWeights[] = {{"2^14", 16384, true}, {"2^15 unsigned", 32768, false}, {"127 * 256", 32512, true}};
  Head head{Rows(16, Row(kDim)), Rows(count, Row(kDim)), Rows(count, Row(kDim))};
  for (Row& row : head.q)
    for (double& x : row) x = to_float(draw() * sharpness);
  for (std::size_t j = 0; j < count; ++j) {
    const double size = spread ? std::exp(draw()) : 1.0;
    for (std::size_t d = 0; d < kDim; ++d) {
      head.k[j][d] = to_float(draw() * (d == 5 ? 10 : 1));
      head.v[j][d] = to_float(draw() * size);
    }
  }
  const Row exact = attend(head, 0);
  std::printf("%-28s keys %4zu | BF16 %.1e | TF32 %.1e", name, count, relative_error(attend(head, 8), exact),
              relative_error(attend(head, 11), exact));
  for (const std::size_t block : {64, 128})
    for (const Weights& weights : kWeights)
      for (const int products : {3, 4})
        std::printf(" | %zu, %s, %d products %.1e", block, weights.name, products,
                    relative_error(attend_in_integers(head, block, weights, products), exact));
  std::printf("\n");
}

}  // namespace

int main() {
  for (const std::size_t terms : {3072, 14336}) {
    const auto plain = [](std::size_t) { return draw(); };
    const auto weight = [](std::size_t) { return 0.02 * draw(); };
    const auto massive = [](std::size_t k) { return k == 7 ? 1000.0 : draw(); };
    linear("Gaussian", terms, plain, weight);
    linear(
        "log-normal", terms, [](std::size_t) { return draw() * std::exp(draw()); }, weight);
    linear(
        "every 97th x 100", terms, [](std::size_t k) { return draw() * (k % 97 == 0 ? 100 : 1); }, weight);
    linear("one of 1000 sigma", terms, massive, weight);
    linear("the same, its weights 0", terms, massive, [](std::size_t k) { return k == 7 ? 0 : 0.02 * draw(); });
    linear("log-normal weights", terms, plain, [](std::size_t) { return 0.02 * draw() * std::exp(draw()); });
  }
  for (const std::size_t count : {1024, 8192})
    for (const double sharpness : {1.0, 3.0, 8.0}) attention("scores", sharpness, count, false);
  for (const double sharpness : {1.0, 3.0, 8.0}) attention("scores, values of many sizes", sharpness, 8192, true);
}
