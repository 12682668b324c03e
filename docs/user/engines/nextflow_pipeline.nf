// Cleans and packs the files of a directory, each step where its input lies:
//     nextflow run nextflow_pipeline.nf -w /mnt/work/nextflow --parts /mnt/work/parts --out /mnt/work/packed

include { beside } from './intarsia.nf'

process clean {
    executor 'slurm'
    clusterOptions { beside(part) }
    input: path part
    output: path "${part}.clean"
    script: "grep -v '^#' ${part} > ${part}.clean"
}

process pack {
    executor 'slurm'
    clusterOptions { beside(cleaned) }
    publishDir params.out, mode: 'link'
    input: path cleaned
    output: path "${cleaned}.gz"
    script: "gzip -1 < ${cleaned} > ${cleaned}.gz"
}

workflow {
    Channel.fromPath("${params.parts}/*.txt") | clean | pack
}
