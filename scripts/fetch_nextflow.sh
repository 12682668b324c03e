#!/usr/bin/env bash
# Fetches Nextflow from Maven Central into build/nextflow, for tests/workflows/test_nextflow.py. Needs Java 17 and Maven.
set -euo pipefail
cd "$(dirname "$0")/.."
version=24.10.0
[ -e "build/nextflow/lib/nextflow-$version.jar" ] && exit 0
mkdir -p build/nextflow
cat >build/nextflow/pom.xml <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>intarsia</groupId>
  <artifactId>nextflow-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.nextflow</groupId>
      <artifactId>nextflow</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
</project>
END
cd build/nextflow
mvn --quiet --batch-mode dependency:copy-dependencies -DoutputDirectory=lib
